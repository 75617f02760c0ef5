"""A rank that makes in each step what all ranks train on, and scatters it."""

from pathlib import Path

import pytest

from observed_scripts import findings_at_last, findings_of, marked
from steptime.check.finding import Finding

SCATTERED = """
import time
from torch import nn
way = {way!r}
torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
ahead = None

def made():
    time.sleep(0.02)
    return list(torch.randn(size * 32, 64).chunk(size))

for step in range(12):
    mine = torch.empty(32, 64)
    if way == "each its own":
        time.sleep(0.01)
        mine.normal_()
    else:
        if rank == 1:
            parts = ahead or made()
            ahead = [torch.randn(32, 64) for _ in range(size)] if way == "ahead" else None
        dist.scatter(mine, parts if rank == 1 else None, src=1)  # scatters
    optimizer.zero_grad()
    model(mine).square().mean().backward()
    optimizer.step()
dist.destroy_process_group()
"""


def _of_parts(found: list[Finding]) -> list[Finding]:
    return [one for one in found if "what all ranks are given" in one.what]


def test_a_rank_that_makes_all_parts_is_told(tmp_path: Path) -> None:
    (found,) = _of_parts(findings_of(tmp_path, SCATTERED.format(way="in each step"), ranks=3))
    assert found.what.startswith("Rank 1 makes in each step what all ranks are given at")
    assert (list(found.ranks), marked(found)) == ([1], {"scatters"})
    assert found.gain is not None
    assert 0.3 < found.gain < 0.67


@pytest.mark.slow
@pytest.mark.parametrize("way", ["each its own", "ahead"])
def test_ranks_that_do_not_wait_for_their_parts_are_left_alone(way: str, tmp_path: Path) -> None:
    body = SCATTERED.format(way=way)
    assert _of_parts(findings_at_last(tmp_path, body, lambda one: not _of_parts(one), 3)) == []
