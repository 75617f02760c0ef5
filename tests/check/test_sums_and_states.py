"""Gradients that a script sums up in each micro-batch, and what is loaded before sharding."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding, FindingKind

SUMMED = """
from torch import nn
way = {way!r}
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 8))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = [torch.zeros_like(one) for one in model.parameters()]
torch.manual_seed(1 + rank)
for step in range(4):
    optimizer.zero_grad()
    for micro in range(3):
        model(torch.randn(8, 32)).square().mean().backward()
        for number, parameter in enumerate(model.parameters()):
            if way == "once" and micro < 2:
                continue
            dist.all_reduce(parameter.grad)  # sums
            if way == "averages":
                parameter.grad /= size
            if way == "apart":
                total[number] += parameter.grad
                parameter.grad.zero_()
    optimizer.step()
dist.destroy_process_group()
"""


def _drift(folder: Path, text: str) -> list[Finding]:
    return [one for one in findings_of(folder, text) if one.kind is FindingKind.DRIFT]


def test_sums_that_are_summed_up_again_are_told(tmp_path: Path) -> None:
    (found,) = _drift(tmp_path, SUMMED.format(way=""))
    assert "is summed up again, and counts 2 times as much" in found.what
    assert marked(found) == {"sums"}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["once", "averages", "apart"])
def test_sums_that_are_right_are_left_alone(way: str, tmp_path: Path) -> None:
    assert _drift(tmp_path, SUMMED.format(way=way)) == []


LOADED = """
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.fsdp import fully_shard
way = {way!r}
torch.manual_seed(rank)
model = nn.Sequential(nn.Linear(32, 32), nn.Linear(32, 32))
trained = {{name: torch.randn_like(one) for name, one in model.state_dict().items()}}
if rank == 0 and way != "after" or way == "all":
    model.load_state_dict(trained)  # loads
if way == "broadcast":
    for parameter in model.parameters():
        dist.broadcast(parameter.data, 0)
fully_shard(model)
if way == "after":
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(model, trained if rank == 0 else {{}}, options=options)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    model(torch.randn(8, 32)).square().mean().backward()
    optimizer.step()  # steps
    optimizer.zero_grad()
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_a_state_that_one_rank_loads_before_sharding_is_told(tmp_path: Path) -> None:
    (found,) = _drift(tmp_path, LOADED.format(way="before"))
    assert found.what.startswith("Rank 0 loads a state before fully_shard, and rank 1 loads none")
    assert marked(found) == {"loads", "steps"}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["all", "broadcast", "after"])
def test_states_that_all_ranks_have_are_left_alone(way: str, tmp_path: Path) -> None:
    assert _drift(tmp_path, LOADED.format(way=way)) == []


NOTHING = """
from torch import nn
way = {way!r}
inner, model = nn.Linear(8, 8), nn.Linear(8, 8)
state = nn.parallel.DistributedDataParallel(inner).state_dict()
if way == "a part":
    state["weight"] = state["module.weight"]
if way == "renamed":
    nn.modules.utils.consume_prefix_in_state_dict_if_present(state, "module.")
model.load_state_dict(state, strict=False)  # loads
dist.destroy_process_group()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("way", "told"), [("", 1), ("a part", 0), ("renamed", 0)])
def test_a_state_without_any_name_of_the_model_is_told(way: str, told: int, tmp_path: Path) -> None:
    found = findings_of(tmp_path, NOTHING.format(way=way))
    assert [marked(one) for one in found] == [{"loads"}] * told
