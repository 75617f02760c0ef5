"""Ranks that train in other modes, and shards that not all ranks save."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding, FindingKind

MODES = """
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
habit = {habit!r}
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 16), nn.ReLU() if "nothing" in habit else nn.Dropout(0.5))
model = fully_shard(model) if "shards" in habit else DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.manual_seed(1 + rank)
for epoch in range(2):
    for _ in range(5):
        model(torch.randn(4, 16)).sum().backward()  # trains
        optimizer.step()
        optimizer.zero_grad()
        if "trial" in habit:
            model.train()
    if rank == 1 or "all" in habit:
        model.eval()
"""

SHARDS = """
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
habit = {habit!r}
torch.manual_seed(0)
model = nn.Linear(16, 16)
if habit == "replicas":
    fully_shard(model, mesh=init_device_mesh("cpu", (2, 2), mesh_dim_names=("copies", "parts")))
else:
    fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
model(torch.ones(4, 16)).sum().backward()
optimizer.step()
if rank == 1 or habit == "all" or (habit == "replicas" and rank < 2):
    state = {{"model": model.state_dict(), "optimizer": optimizer.state_dict()}}
    torch.save(state, f"state-{{rank}}.pt")  # saves
"""


@pytest.mark.parametrize("habit", ["one", pytest.param("one of shards", marks=pytest.mark.slow)])
def test_a_rank_that_trains_in_evaluation_mode_is_told(habit: str, tmp_path: Path) -> None:
    (told,) = _drifts(findings_of(tmp_path, MODES.format(habit=habit)))
    assert (list(told.ranks), marked(told)) == ([1], {"trains"})
    assert "from forward 6 on, and rank 0 trains in training mode: Dropout" in told.what


@pytest.mark.slow
@pytest.mark.parametrize("habit", ["all", "one for a trial", "one where nothing is otherwise"])
def test_modes_that_change_nothing_are_left_alone(habit: str, tmp_path: Path) -> None:
    assert _drifts(findings_of(tmp_path, MODES.format(habit=habit))) == []


def test_shards_that_one_rank_saves_are_told(tmp_path: Path) -> None:
    (told,) = _parts(findings_of(tmp_path, SHARDS.format(habit="one")))
    assert (told.kind, list(told.ranks), marked(told)) == (FindingKind.RACE, [1], {"saves"})
    assert "6 tensors that are sharded over ranks 0 and 1: what rank 0 has is in no" in told.what


@pytest.mark.slow
@pytest.mark.parametrize(("habit", "ranks"), [("all", 2), ("replicas", 4)])
def test_shards_that_are_all_saved_are_left_alone(habit: str, ranks: int, tmp_path: Path) -> None:
    assert _parts(findings_of(tmp_path, SHARDS.format(habit=habit), ranks)) == []


def _drifts(found: list[Finding]) -> list[Finding]:
    return [one for one in found if one.kind is FindingKind.DRIFT]


def _parts(found: list[Finding]) -> list[Finding]:
    return [one for one in found if "sharded" in one.what]
