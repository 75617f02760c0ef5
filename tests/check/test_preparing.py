"""Batches that the script makes itself, between one step and the next."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding, FindingKind

PREPARED = """
import time
from torch import nn
way = {way!r}
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 64))
actor = nn.Sequential(*(nn.Linear(256, 256) for _ in range(4)))
model = nn.parallel.DistributedDataParallel(net)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def words(text):
    return [sum(map(ord, word)) % 256 for word in text.split()]

for step in range(15):
    rows = torch.randn(32, 256)
    until = time.monotonic() + 0.03
    if way == "tokenised":
        words("a line of some words, again and again " * 60_000)  # prepares
    if way == "asleep":
        time.sleep(0.03)
    while way == "played" and time.monotonic() < until:
        with torch.no_grad():
            rows = actor(rows)
    loss = model(rows).square().mean()
    while way == "after" and time.monotonic() < until:
        words("what is done between the forward and the backward " * 20)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
dist.destroy_process_group()
"""


def _preparing(folder: Path, way: str) -> list[Finding]:
    found = findings_of(folder, PREPARED.format(way=way))
    return [one for one in found if "Every rank prepares what" in one.what]


@pytest.mark.slow
def test_a_batch_that_is_made_in_the_loop_is_told(tmp_path: Path) -> None:
    (found,) = _preparing(tmp_path, "tokenised")
    assert found.kind is FindingKind.SLOW
    assert found.ranks == [0, 1]
    assert marked(found) == {"prepares"}
    assert found.gain is not None
    assert 0.25 < found.gain < 1


@pytest.mark.slow
@pytest.mark.parametrize("way", ["asleep", "played", "after", ""])
def test_what_makes_no_batch_or_no_work_is_left_alone(way: str, tmp_path: Path) -> None:
    assert _preparing(tmp_path, way) == []
