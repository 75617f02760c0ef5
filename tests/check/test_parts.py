"""Models that DDP reduces among some of the ranks alone: by mistake, or as it should be."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding, FindingKind

TRAINING = """
from torch import nn
from torch.nn.parallel import DistributedDataParallel
case = {case!r}
alone = [dist.new_group([one]) for one in range(size)][rank]
expert = DistributedDataParallel(nn.Linear(8, 8), process_group=alone)  # wraps
shared = DistributedDataParallel(nn.Linear(8, 8)) if case == "expert" else nn.Identity()
if case == "begun apart":
    with torch.no_grad():
        expert.module.weight.add_(rank)
trained = [*shared.parameters(), *expert.parameters()]
optimizer = torch.optim.SGD(trained, lr=0.1)
torch.manual_seed(1 + rank)
for step in range(12):
    loss = expert(shared(torch.randn(4, 8))).square().mean()
    optimizer.zero_grad()
    loss.backward()
    for parameter in trained if case == "by hand" else ():
        dist.all_reduce(parameter.grad)
    optimizer.step()
    if case != "apart":
        dist.all_reduce(loss.detach())
    for parameter in trained if case == "averaged" and step % 4 == 3 else ():
        dist.all_reduce(parameter.data)
        parameter.data /= size
dist.destroy_process_group()
"""


def _drift(folder: Path, body: str, ranks: int = 2) -> list[Finding]:
    """What drifts: that it is slow besides is of the machine."""
    return [one for one in findings_of(folder, body, ranks) if one.kind is not FindingKind.SLOW]


def test_replicas_that_each_rank_reduces_alone_are_told(tmp_path: Path) -> None:
    (found,) = _drift(tmp_path, TRAINING.format(case="alone"))
    assert (found.kind, found.ranks) == (FindingKind.DRIFT, [0, 1])
    assert "for each rank alone" in found.what
    assert marked(found) == {"wraps"}


@pytest.mark.parametrize(
    "case",
    [
        "expert",
        *(
            pytest.param(one, marks=pytest.mark.slow)
            for one in ("by hand", "averaged", "apart", "begun apart")
        ),
    ],
)
def test_experts_and_what_is_kept_equal_otherwise_are_left_alone(tmp_path: Path, case: str) -> None:
    assert _drift(tmp_path, TRAINING.format(case=case)) == []


IN_GROUPS = """
from torch import nn
from torch.nn.parallel import DistributedDataParallel
case = {case!r}
pairs = [dist.new_group([0, 1]), dist.new_group([2, 3])]
model = DistributedDataParallel(nn.Linear(8, 8), process_group=pairs[rank // 2])  # wraps
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for step in range(8):
    inputs = torch.randn(4, 8)
    if case == "stages" and rank >= 2:
        dist.recv(inputs, rank - 2)
    outputs = model(inputs)
    if case == "stages" and rank < 2:
        dist.send(outputs.detach(), rank + 2)
    loss = outputs.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    dist.all_reduce(loss.detach())
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_groups_of_ranks_that_train_apart_are_told_and_stages_are_not(tmp_path: Path) -> None:
    (tmp_path / "stages").mkdir()
    (found,) = _drift(tmp_path, IN_GROUPS.format(case="groups"), ranks=4)
    assert "for ranks 0 and 1 and ranks 2 and 3 each" in found.what
    assert _drift(tmp_path / "stages", IN_GROUPS.format(case="stages"), ranks=4) == []
