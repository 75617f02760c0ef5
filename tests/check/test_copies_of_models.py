"""Copies of a model that ranks run, or save, while the model is trained."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding, FindingKind

AVERAGES = """
import copy
from torch import nn
from torch.nn.parallel import DistributedDataParallel
habit = {habit!r}
torch.manual_seed(0)
layers = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 1))
average = copy.deepcopy(layers)
model = DistributedDataParallel(layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.manual_seed(1 + rank)
other = nn.Sequential(nn.Linear(16, 8), nn.Linear(8, 1))
for step in range(4):
    model(torch.randn(4, 16)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if rank == 0 or habit != "one updates":
        average.load_state_dict(layers.state_dict())
    with torch.no_grad():
        if rank == 0 or habit != "one runs":
            average(torch.randn(4, 16))  # runs
        layers(torch.randn(4, 16))
        other(torch.randn(4, 16))
"""

SAVES = """
import threading
from torch import nn
from torch.nn.parallel import DistributedDataParallel
habit = {habit!r}
torch.manual_seed(0)
layers = nn.Linear(16, 16)
model = DistributedDataParallel(layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
stepped, begun = threading.Event(), threading.Event()

class Slow:
    def __reduce__(self):
        begun.set()
        stepped.wait(30 if habit != "it waits" else 0)
        return Slow, ()

def save(state):
    torch.save([state, Slow()], f"state-{{rank}}.pt")  # saves

def trains():
    model(torch.ones(4, 16)).sum().backward()
    optimizer.step()  # steps

trains()
if rank == 1:
    state = layers.state_dict()
    if habit == "it has copies":
        state = {{name: one.clone() for name, one in state.items()}}
    saver = threading.Thread(target=save, args=(state,))
    saver.start()
    begun.wait(30)
    if habit == "it waits":
        saver.join()
trains()
stepped.set()
if rank == 1:
    saver.join()
"""


def test_copies_that_differ_between_ranks_are_told(tmp_path: Path) -> None:
    (told,) = _of(FindingKind.DRIFT, tmp_path, AVERAGES.format(habit="one updates"))
    assert (list(told.ranks), marked(told)) == ([0, 1], {"runs"})
    assert "a copy of Sequential without gradients after step 1" in told.what


@pytest.mark.slow
@pytest.mark.parametrize("habit", ["all update", "one runs"])
def test_copies_that_are_equal_or_run_by_one_are_left_alone(habit: str, tmp_path: Path) -> None:
    assert _of(FindingKind.DRIFT, tmp_path, AVERAGES.format(habit=habit)) == []


def test_a_save_that_a_step_overtakes_is_told(tmp_path: Path) -> None:
    (told,) = _of(FindingKind.RACE, tmp_path, SAVES.format(habit="it shares"))
    assert (list(told.ranks), marked(told)) == ([1], {"steps", "saves"})
    assert "another thread saves its parameters into state-1.pt" in told.what


@pytest.mark.slow
@pytest.mark.parametrize("habit", ["it has copies", "it waits"])
def test_saves_that_no_step_reaches_are_left_alone(habit: str, tmp_path: Path) -> None:
    assert _of(FindingKind.RACE, tmp_path, SAVES.format(habit=habit)) == []


def _of(kind: FindingKind, folder: Path, body: str) -> list[Finding]:
    return [one for one in findings_of(folder, body) if one.kind is kind]
