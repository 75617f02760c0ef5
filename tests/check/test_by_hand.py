"""Gradients that a script sends between ranks itself: told where the steps are not made of them."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding, FindingKind

TRAINING = """
from torch import nn
way = {way!r}
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.manual_seed(1 + rank)

def exchange():
    for parameter in model.parameters():
        if parameter.grad is None:
            return
        if way in ("to one", "a server", "in two"):
            dist.reduce(parameter.grad, 0)  # sends
        if way == "gathered":
            parts = [torch.empty_like(parameter.grad) for _ in range(size)]
            dist.gather(parameter.grad.clone(), parts if rank == 0 else None)
            if rank == 0:
                parameter.grad = sum(parts)
        if way in ("of one", "in two", "gathered"):
            dist.broadcast(parameter.grad, 0)  # sends
        if way in ("after", "before", "rightly"):
            dist.all_reduce(parameter.grad)  # sends
        if way == "the largest":
            dist.all_reduce(parameter.grad, dist.ReduceOp.MAX)  # sends
        parameter.grad /= size

for step in range(6):
    if way == "before":
        exchange()
    rows = torch.randn(8, 32)
    optimizer.zero_grad()
    (model(rows) - rows).square().mean().backward()
    if way not in ("after", "before"):
        exchange()
    optimizer.step()  # steps
    if way == "after":
        exchange()
    if way == "a server":
        for parameter in model.parameters():
            dist.broadcast(parameter.data, 0)
dist.barrier()
dist.destroy_process_group()
"""


def _silent(folder: Path, way: str) -> list[Finding]:
    """What is found but for what is slow: the model is too small for anything else."""
    found = findings_of(folder, TRAINING.format(way=way))
    return [one for one in found if one.kind is not FindingKind.SLOW]


LATE = "are gradients by which the optimizer has stepped already"


@pytest.mark.parametrize(
    ("way", "words"),
    [
        ("after", LATE),
        pytest.param("before", LATE, marks=pytest.mark.slow),
        pytest.param("to one", "on rank 0 alone, and every rank steps", marks=pytest.mark.slow),
        pytest.param("of one", "The gradients of rank 0 are broadcast", marks=pytest.mark.slow),
        pytest.param("the largest", "are reduced at script.py:", marks=pytest.mark.slow),
    ],
)
def test_steps_by_gradients_of_one_rank_are_told(way: str, words: str, tmp_path: Path) -> None:
    (found,) = _silent(tmp_path, way)
    assert found.kind is FindingKind.DRIFT
    assert words in found.what
    assert sorted(found.ranks) == [0, 1]
    assert marked(found) == {"sends", "steps"}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["rightly", "a server", "in two", "gathered"])
def test_steps_by_sums_or_of_a_server_are_left_alone(way: str, tmp_path: Path) -> None:
    assert _silent(tmp_path, way) == []


HOOKED = """
from torch import nn
way = {way!r}

def average(gradient):
    if way == "in place":
        gradient /= size
        dist.all_reduce(gradient)
        return None
    if way == "of its norm":
        dist.all_reduce(gradient.norm())
        return None
    copy = gradient / size
    if way == "later":
        handles.append((copy, dist.all_reduce(copy, async_op=True)))
        return None
    dist.all_reduce(copy)  # sums
    if way == "written":
        gradient.data.copy_(copy)
    return copy if way == "returned" else gradient if way == "given back" else None

def of_parameter(parameter):
    if way == "of the parameter":
        copy = parameter.grad / size
        dist.all_reduce(copy)  # sums
    else:
        parameter.grad /= size
        dist.all_reduce(parameter.grad)

handles = []
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
for parameter in model.parameters():
    if "parameter" in way:
        parameter.register_post_accumulate_grad_hook(of_parameter)
    else:
        parameter.register_hook(average)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for step in range(4):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).square().mean().backward()
    for number, (copy, handle) in enumerate(handles):
        handle.wait()
        of_shape = [one for one in model.parameters() if one.shape == copy.shape]
        of_shape[1 - number // 2].grad.copy_(copy)
    handles.clear()
    optimizer.step()
dist.destroy_process_group()
"""


def _dropped(folder: Path, way: str) -> list[Finding]:
    found = findings_of(folder, HOOKED.format(way=way))
    return [one for one in found if "the sum is dropped" in one.what]


@pytest.mark.parametrize(
    "way",
    [
        "dropped",
        *(pytest.param(one, marks=pytest.mark.slow) for one in ("given back", "of the parameter")),
    ],
)
def test_a_sum_that_a_hook_drops_is_told(way: str, tmp_path: Path) -> None:
    (found,) = _dropped(tmp_path, way)
    assert (list(found.ranks), marked(found)) == ([0, 1], {"sums"})


@pytest.mark.slow
@pytest.mark.parametrize(
    "way", ["in place", "returned", "written", "later", "of its norm", "right parameter"]
)
def test_hooks_whose_sums_go_on_are_left_alone(way: str, tmp_path: Path) -> None:
    assert _dropped(tmp_path, way) == []
