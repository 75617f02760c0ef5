"""Replicas whose gradients hooks of the script reduce, and what is seen of how they go apart."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import FindingKind

TRAINING = """
from torch import nn
way = {way!r}
torch.manual_seed(rank if way == "parts" else 0)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
kept = []

def reduce(gradient):
    kept.append(gradient)
    if way != "late" or len(kept) == 4:  # autograd copies what somebody else holds
        for one in kept:
            dist.all_reduce(one)
            one /= size
        kept.clear()

for parameter in model.parameters():
    parameter.register_hook(reduce)
torch.manual_seed(1 + rank)
for step in range(6):
    rows = torch.randn(8, 32)
    optimizer.zero_grad()
    (model(rows) - rows).square().mean().backward()
    optimizer.step()  # steps
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_sums_that_reach_copies_of_the_gradients_are_told(tmp_path: Path) -> None:
    found = findings_of(tmp_path, TRAINING.format(way="late"))
    (drift,) = (one for one in found if one.kind is FindingKind.DRIFT)
    assert "The parameters differ between the two ranks after step 1" in drift.what
    assert "so return it from the hook" in drift.mend
    assert sorted(drift.ranks) == [0, 1]
    assert marked(drift) == {"steps"}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["at once", "parts"])
def test_hooks_may_reduce_what_ranks_have_of_their_own(way: str, tmp_path: Path) -> None:
    found = findings_of(tmp_path, TRAINING.format(way=way))
    assert [one for one in found if one.kind is not FindingKind.SLOW] == []
