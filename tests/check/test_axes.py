"""Parts of a model that have replicas, and shards of gradients that are scaled apart."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding, FindingKind

STAGES = """
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
way = {way!r}
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "stage"))
data, stage = (mesh[name].get_local_rank() for name in ("data", "stage"))
torch.manual_seed(stage)
part = nn.Linear(32, 8) if stage else nn.Sequential(nn.Linear(32, 32), nn.ReLU())
piped = PipelineStage(part, stage, 2, torch.device("cpu"), group=mesh["stage"].get_group())
schedule = ScheduleGPipe(piped, n_microbatches=4, loss_fn=nn.functional.cross_entropy)
optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
group = mesh["data"].get_group()
for step in range(4):
    torch.manual_seed(10 * step + (0 if way == "one batch" else data))
    rows, labels = torch.randn(16, 32), torch.randint(0, 8, (16,))
    optimizer.zero_grad()
    if stage:
        schedule.step(target=labels)
    else:
        schedule.step(rows)
    for parameter in part.parameters() if way == "reduced" else ():
        dist.all_reduce(parameter.grad, group=group)
        parameter.grad /= 2
    optimizer.step()  # steps
    dist.all_reduce(torch.ones(1))
    for parameter in part.parameters() if way == "averaged" else ():
        dist.all_reduce(parameter.data, group=group)
        parameter.data /= 2
dist.destroy_process_group()
"""


def _drift(folder: Path, text: str, ranks: int = 2) -> list[Finding]:
    found = findings_of(folder, text, ranks)
    return [one for one in found if one.kind is FindingKind.DRIFT]


@pytest.mark.slow
def test_stages_whose_replicas_are_never_reduced_are_told(tmp_path: Path) -> None:
    (found,) = _drift(tmp_path, STAGES.format(way="apart"), 4)
    assert "Ranks 0 and 2 and ranks 1 and 3 have a group each" in found.what
    assert found.ranks == [0, 1, 2, 3]
    assert marked(found) == {"steps"}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["reduced", "averaged", "one batch"])
def test_stages_whose_replicas_are_made_alike_are_left_alone(way: str, tmp_path: Path) -> None:
    assert _drift(tmp_path, STAGES.format(way=way), 4) == []


HALVES = """
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
way = {way!r}
mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "shards"))
torch.manual_seed(rank if way == "seeds" else 0)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))
fully_shard(model, mesh=mesh["shards"] if way == "of one" else mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for step in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 32)).square().mean().backward()
    optimizer.step()  # steps
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_shards_whose_replicas_are_never_reduced_are_told(tmp_path: Path) -> None:
    (found,) = _drift(tmp_path, HALVES.format(way="of one"), 4)
    assert "Ranks 0 and 2 and ranks 1 and 3 have a group each" in found.what
    assert marked(found) == {"steps"}


@pytest.mark.slow
def test_replicas_of_shards_that_begin_apart_are_told(tmp_path: Path) -> None:
    (found,) = _drift(tmp_path, HALVES.format(way="seeds"), 4)
    assert found.what.startswith("Ranks 0 and 2 and ranks 1 and 3 have the same parts")
    assert marked(found) == {"steps"}


@pytest.mark.slow
def test_shards_that_have_replicas_in_their_mesh_are_left_alone(tmp_path: Path) -> None:
    assert _drift(tmp_path, HALVES.format(way="of both"), 4) == []


SHARDS = """
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
way = {way!r}
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))
fully_shard(model, mesh=init_device_mesh("cpu", (size,)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for step in range(5):
    optimizer.zero_grad()
    model(torch.randn(8, 32)).square().mean().backward()
    if way == "by torch":
        nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    elif way != "never":
        squares = sum(one.grad.to_local().square().sum() for one in model.parameters())
        if way == "of all":
            dist.all_reduce(squares)
        for one in model.parameters():
            one.grad.mul_(0.01 / float(squares) ** 0.5)
    optimizer.step()  # steps
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_shards_that_each_rank_clips_by_its_own_norm_are_told(tmp_path: Path) -> None:
    (found,) = _drift(tmp_path, SHARDS.format(way="of each"))
    assert "Each rank scales its own shards of the gradients" in found.what
    assert marked(found) == {"steps"}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["of all", "by torch", "never"])
def test_shards_that_are_clipped_by_one_norm_are_left_alone(way: str, tmp_path: Path) -> None:
    assert _drift(tmp_path, SHARDS.format(way=way)) == []
