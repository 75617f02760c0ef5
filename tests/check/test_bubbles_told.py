"""Pipelines written by hand: told where so few micro-batches are under way that stages wait."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding, FindingKind

BODY = """
import time
from torch import nn
stages, micro_batches, habit = {stages}, {micro_batches}, {habit!r}
stage, first = rank % stages, rank - rank % stages

class Works(torch.autograd.Function):
    @staticmethod
    def forward(ctx, given):
        time.sleep(0.06 / micro_batches)
        return given.clone()
    @staticmethod
    def backward(ctx, gradient):
        time.sleep(0.06 / micro_batches)
        return gradient

def give_back(given, made):
    gradient = torch.ones(8, 16)
    if stage < stages - 1:
        dist.recv(gradient, rank + 1)  # receives gradients
    if habit != "only the last learns" or stage == stages - 1:
        made.backward(gradient)
    if stage:
        dist.send(torch.ones(8, 16), rank - 1)

layer = nn.Linear(16, 16)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
for step in range(6):
    kept = []
    for number in range(micro_batches):
        given = torch.ones(8, 16, requires_grad=True)
        if stage:
            dist.recv(given.data, rank - 1)  # receives
        made = Works.apply(layer(given))
        if stage < stages - 1:
            dist.send(made.detach(), rank + 1)
        if habit == "in turn":
            give_back(given, made)
        else:
            kept.append((given, made))
    for given, made in kept:
        give_back(given, made)
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("stages", "micro_batches", "ranks"), [(2, 1, 2), (2, 1, 4), (3, 2, 3)])
def test_too_few_micro_batches_are_told(
    stages: int, micro_batches: int, ranks: int, tmp_path: Path
) -> None:
    found = _bubbles(tmp_path, stages, micro_batches, ranks)
    assert [list(one.ranks) for one in found] == [
        list(range(first, first + stages)) for first in range(0, ranks, stages)
    ]
    for one in found:
        assert one.kind is FindingKind.SLOW
        assert marked(one) <= {"receives", "receives gradients"}
        assert one.gain is not None
        assert 0.1 < one.gain < 0.7


@pytest.mark.parametrize("stages", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_micro_batches_that_pass_one_at_a_time_are_told(stages: int, tmp_path: Path) -> None:
    (found,) = _bubbles(tmp_path, stages, 6, stages, "in turn")
    assert "lets one of its 6 micro-batches come back before it begins the next" in found.what
    assert found.gain is not None
    # On p stages each works 1 / p of the time, and could do so m of m + p - 1 times.
    assert 0.8 < found.gain / (1 - (6 + stages - 1) / (6 * stages)) < 1.1


@pytest.mark.parametrize(
    ("micro_batches", "habit"),
    [(8, ""), pytest.param(1, "only the last learns", marks=pytest.mark.slow)],
)
def test_enough_of_them_and_what_is_no_pipeline_are_left_alone(
    micro_batches: int, habit: str, tmp_path: Path
) -> None:
    assert _bubbles(tmp_path, 2, micro_batches, 2, habit) == []


def _bubbles(
    folder: Path, stages: int, micro_batches: int, ranks: int, habit: str = ""
) -> list[Finding]:
    body = BODY.format(stages=stages, micro_batches=micro_batches, habit=habit)
    return [one for one in findings_of(folder, body, ranks) if "pipeline" in one.what]
