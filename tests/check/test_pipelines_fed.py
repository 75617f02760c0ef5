"""Pipelines: gradients that their schedule scales again, stages that read other batches."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import FindingKind

SCALED = """
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
way = {way!r}
module = nn.Linear(8, 8)
stage = PipelineStage(module, rank, 2, torch.device("cpu"))
loss = nn.functional.mse_loss
schedule = Schedule1F1B(stage, 2, loss_fn=loss, scale_grads=way != "not scaled")
optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
for _ in range(3):
    for _ in range(2):
        if way == "cleared":
            optimizer.zero_grad()
        inputs = (torch.randn(4, 8),) if rank == 0 else ()
        schedule.step(*inputs, **({{}} if rank == 0 else dict(target=torch.zeros(4, 8))))  # runs
        if way == "stepped":
            optimizer.step()
    optimizer.step()
    optimizer.zero_grad(set_to_none=way != "stepped")
dist.destroy_process_group()
"""

BATCHES = """
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
way = {way!r}
torch.manual_seed(0)
stage = nn.Linear(8, 8) if rank == 0 else nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1))
if way != "apart":
    torch.manual_seed(1)
samples = torch.randn(64, 8)
data = TensorDataset(samples, samples.sum(1, keepdim=True))
if way == "apart" and rank == 1:
    data = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
order = torch.Generator().manual_seed(rank if way == "inputs alone" else 2)
if way == "inputs alone":
    data = TensorDataset(data.tensors[rank])
optimizer = torch.optim.SGD(stage.parameters(), lr=0.1)
for batch in DataLoader(data, 8, shuffle=True, generator=order):  # reads
    if rank == 0:
        hidden = stage(batch[0])
        dist.send(hidden.detach(), 1)
        gradient = torch.empty_like(hidden)
        dist.recv(gradient, 1)
        hidden.backward(gradient)
    else:
        hidden = torch.empty(8, 8)
        dist.recv(hidden, 0)
        hidden.requires_grad_()
        (stage(hidden) - batch[-1]).square().mean().backward()
        dist.send(hidden.grad, 0)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""


def test_gradients_that_a_schedule_scales_in_each_of_its_calls_are_told(tmp_path: Path) -> None:
    told = [
        one for one in findings_of(tmp_path, SCALED.format(way="again")) if "divides" in one.what
    ]
    assert len(told) == 1
    assert told[0].kind is FindingKind.DRIFT
    assert told[0].ranks == [0, 1]
    assert marked(told[0]) == {"runs"}
    assert "by its 2 micro-batches" in told[0].what


@pytest.mark.slow
@pytest.mark.parametrize("way", ["not scaled", "cleared", "stepped"])
def test_gradients_that_are_scaled_once_are_left_alone(way: str, tmp_path: Path) -> None:
    found = findings_of(tmp_path, SCALED.format(way=way))
    assert not [one for one in found if "divides the gradients" in one.what]


def test_stages_that_read_other_samples_are_told(tmp_path: Path) -> None:
    found = findings_of(tmp_path, BATCHES.format(way="apart"))
    told = [one for one in found if "no sample in common" in one.what]
    assert len(told) == 1
    assert told[0].kind is FindingKind.DATA
    assert told[0].ranks == [0, 1]
    assert marked(told[0]) == {"reads"}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["together", "inputs alone"])
def test_stages_that_read_the_same_samples_or_parts_of_them_are_left_alone(
    way: str, tmp_path: Path
) -> None:
    found = findings_of(tmp_path, BATCHES.format(way=way))
    assert not [one for one in found if "no sample in common" in one.what]
