"""Losses that average over the targets of their own rank, of which some ranks have many more."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding

AVERAGED = """
from torch import nn
from torch.distributed.fsdp import fully_shard
way = {way!r}
torch.manual_seed(0)
model = nn.Linear(16, 4)
model = fully_shard(model) if way == "sharded" else nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
average = nn.CrossEntropyLoss(ignore_index=3)
torch.manual_seed(1 + rank)
for step in range(5):
    rows, labels = torch.randn(24, 16), torch.randint(0, 3, (24,))
    kept = 12 if way == "alike" else 6 + 14 * rank
    labels[kept:] = 3
    loss = average(model(rows), labels)
    if way == "weighed":
        dist.all_reduce(count := torch.tensor(kept))
        loss = loss * kept * size / count
    if way == "gathered":
        dist.all_gather(counts := [torch.tensor(0) for _ in range(size)], torch.tensor(kept))
        loss = loss * kept * size / sum(counts)
    optimizer.zero_grad()
    loss.backward()  # averages
    optimizer.step()
dist.destroy_process_group()
"""


def _told(folder: Path, way: str) -> list[Finding]:
    found = findings_of(folder, AVERAGED.format(way=way))
    return [one for one in found if "own targets" in one.what]


@pytest.mark.parametrize("way", ["replicated", pytest.param("sharded", marks=pytest.mark.slow)])
def test_means_over_each_ranks_own_targets_are_told(way: str, tmp_path: Path) -> None:
    (found,) = _told(tmp_path, way)
    assert "as 6 on rank 0 and 20 on rank 1" in found.what
    assert "a target of rank 0 counts 3.3 times one of rank 1" in found.what
    assert (found.remark, marked(found)) == (True, {"averages"})


@pytest.mark.slow
@pytest.mark.parametrize("way", ["alike", "weighed", "gathered"])
def test_targets_that_count_alike_are_left_alone(way: str, tmp_path: Path) -> None:
    assert _told(tmp_path, way) == []
