"""What ranks hold: memory that nobody wrote, weights of other layers, values in part, old files."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding, FindingKind

EMPTIED = """
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from torch.distributed.fsdp import fully_shard
way = {way!r}
def made():
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))
with torch.device("meta"):
    model = made()
fully_shard(model)
model.to_empty(device="cpu")  # empty
torch.manual_seed(rank)
if way == "reset":
    for one in (model[0], model[2]):
        one.reset_parameters()
elif way == "data":
    for one in model.parameters():
        one.data.normal_(0, 0.02)
elif way == "loaded":
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(model, made().state_dict() if rank == 0 else {{}}, options=options)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(3):
    model(torch.randn(8, 32)).square().mean().backward()
    optimizer.step()  # empty
    optimizer.zero_grad()
dist.destroy_process_group()
"""

SENT = """
from torch import nn
way = {way!r}
torch.manual_seed(rank)
model = nn.Sequential(*(nn.Linear(16, 16, bias=False) for _ in range(12)))
whole = nn.ModuleDict(dict(policy=model)) if rank and way == "prefix" else model
weights = whole.state_dict()
names = sorted(weights) if rank or way != "other order" else list(weights)
if way == "experts" and rank:  # this rank has all, and is sent four
    names = [f"{{at}}.weight" for at in (4, 5, 6, 7)]
elif way == "experts":
    names = [f"{{at}}.weight" for at in (0, 1, 2, 3)]
for _ in range(2):
    for name in names:
        dist.broadcast(weights[name], src=0)  # sends
dist.destroy_process_group()
"""

READ = """
from torch import nn
from torch.distributed.fsdp import fully_shard
torch.manual_seed(0)
model = nn.Linear(32, 8)
fully_shard(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.manual_seed(10 + rank)
for _ in range(3):
    model(torch.randn(8, 32)).square().mean().backward()
    norm = model.weight.grad.norm()
    print({reads})  # reads
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""

OTHER_STEPS = """
from pathlib import Path
from torch import nn
from torch.nn.parallel import DistributedDataParallel
file = Path(f"of-{{rank}}.pt")
torch.save({{"step": 3 + rank, "model": {{}}}}, file)
state = torch.load(file, weights_only=True)  # loads
model = DistributedDataParallel(nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range({steps}):
    model(torch.randn(8, 32)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""


def _told(folder: Path, script: str, words: str) -> list[Finding]:
    return [one for one in findings_of(folder, script) if words in one.what]


def test_parameters_that_nobody_has_written_to_are_told_of(tmp_path: Path) -> None:
    (one,) = _told(tmp_path, EMPTIED.format(way=""), "as to_empty() has left them")
    assert (one.kind, marked(one)) == (FindingKind.RACE, {"empty"})
    assert "finds all parameters" in one.what


@pytest.mark.slow
@pytest.mark.parametrize("way", ["reset", "data", "loaded"])
def test_parameters_that_somebody_has_written_to_are_right(way: str, tmp_path: Path) -> None:
    assert _told(tmp_path, EMPTIED.format(way=way), "as to_empty() has left them") == []


def test_weights_that_go_into_other_layers_are_told_of(tmp_path: Path) -> None:
    (one,) = _told(tmp_path, SENT.format(way="other order"), "of other layers")
    assert (one.kind, marked(one)) == (FindingKind.DRIFT, {"sends"})
    assert "1.weight into 1.weight" not in one.what


@pytest.mark.slow
@pytest.mark.parametrize("way", ["prefix", "one order", "experts"])
def test_weights_under_other_names_or_of_a_part_are_right(way: str, tmp_path: Path) -> None:
    assert _told(tmp_path, SENT.format(way=way), "of other layers") == []


@pytest.mark.parametrize(
    ("reads", "times"),
    [
        ("norm.item()", 1),
        pytest.param("float(norm)", 1, marks=pytest.mark.slow),
        pytest.param("norm.full_tensor().item()", 0, marks=pytest.mark.slow),
        pytest.param("(norm * 2 > 1).item()", 0, marks=pytest.mark.slow),
    ],
)
def test_a_value_that_ranks_have_in_parts_is_read_whole(
    reads: str, times: int, tmp_path: Path
) -> None:
    found = _told(tmp_path, READ.format(reads=reads), "have a part each")
    assert [marked(one) for one in found] == [{"reads"}] * times


@pytest.mark.parametrize("steps", [3, pytest.param(0, marks=pytest.mark.slow)])
def test_checkpoints_of_other_steps_are_told_of_where_ranks_train(
    steps: int, tmp_path: Path
) -> None:
    found = _told(tmp_path, OTHER_STEPS.format(steps=steps), "checkpoints of other steps")
    assert [marked(one) for one in found] == [{"loads"}] * bool(steps)


@pytest.mark.slow
def test_ranks_with_checkpoints_of_one_step_are_named_together(tmp_path: Path) -> None:
    script = OTHER_STEPS.format(steps=3).replace("3 + rank", "3 + rank // 2")
    (found,) = [one for one in findings_of(tmp_path, script, 3) if "of other steps" in one.what]
    assert "is 3 (ranks 0 and 1) and 4 (rank 2)," in found.what
