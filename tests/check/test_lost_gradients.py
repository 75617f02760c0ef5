"""Gradients that are made for nothing, or that are no numbers, and the steps made by them."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import FindingKind

ACCUMULATED = """
from contextlib import nullcontext
from torch import nn
from torch.nn.parallel import DistributedDataParallel
way = {way!r}
torch.manual_seed(0)
model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.manual_seed(10 + rank)
def ascend():
    kept = [one.detach().clone() for one in model.parameters()]
    with torch.no_grad():
        for one in model.parameters():
            one.add_(one.grad, alpha=0.05)
    return kept
for step in range(6):
    for micro in range(3):
        with model.no_sync() if micro < 2 else nullcontext():
            model(torch.randn(8, 32)).square().mean().backward()
        if way == "cleared" and micro < 2:
            optimizer.zero_grad()
        if way == "sharpness" and micro == 0:
            kept = ascend()
            optimizer.zero_grad()
    if way == "sharpness":
        with torch.no_grad():
            for one, before in zip(model.parameters(), kept):
                one.copy_(before)
    optimizer.step()  # steps
    optimizer.zero_grad()
dist.destroy_process_group()
"""

SKIPPED = """
from torch import nn
from torch.nn.parallel import DistributedDataParallel
way = {way!r}
torch.manual_seed(0)
model = DistributedDataParallel(nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", enabled=way == "scaler")
torch.manual_seed(10 + rank)
for step in range(8):
    rows = torch.randn(8, 32)
    if step == 4 and (rank == 1 or way == "everywhere"):
        rows[0, 0] = float("inf")
    loss = model(rows).square().mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()  # begins
    scaler.step(optimizer)  # begins
    scaler.update()
dist.destroy_process_group()
"""


def _told(folder: Path, script: str, way: str, words: str) -> list[set[str]]:
    found = [one for one in findings_of(folder, script.format(way=way)) if words in one.what]
    assert all(one.kind is FindingKind.DRIFT for one in found)
    return [marked(one) for one in found]


def test_gradients_cleared_before_they_are_reduced_are_told_of(tmp_path: Path) -> None:
    assert _told(tmp_path, ACCUMULATED, "cleared", "are cleared by the time") == [{"steps"}]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["accumulated", "sharpness"])
def test_gradients_that_add_up_or_move_parameters_are_right(way: str, tmp_path: Path) -> None:
    assert _told(tmp_path, ACCUMULATED, way, "are cleared by the time") == []


def test_a_loss_of_one_rank_that_is_no_number_is_told_of(tmp_path: Path) -> None:
    found = findings_of(tmp_path, SKIPPED.format(way="one rank"))
    (one,) = (each for each in found if "begins at a loss" in each.what)
    assert (one.kind, list(one.ranks), marked(one)) == (FindingKind.DRIFT, [1], {"begins"})


@pytest.mark.slow
@pytest.mark.parametrize("way", ["everywhere", "scaler"])
def test_losses_that_are_so_everywhere_or_that_make_no_step_are_not(
    way: str, tmp_path: Path
) -> None:
    assert _told(tmp_path, SKIPPED, way, "begins at a loss") == []
