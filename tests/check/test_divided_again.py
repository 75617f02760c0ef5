"""Gradients that DDP has averaged, and the script divides by the number of ranks once more."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding

DIVIDED = """
from torch import nn
from torch.distributed.fsdp import fully_shard
way = {way!r}
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16))
shards = way == "sharded"
model = fully_shard(model) if shards else nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for step in range(6):
    for _ in range(2 if way == "accumulated" else 1):
        model(torch.randn(8, 16)).square().mean().backward()
    if way == "clipped":
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    elif way != "left":
        for parameter in model.parameters():
            parameter.grad /= 2
    optimizer.step()  # steps
    optimizer.zero_grad()
dist.destroy_process_group()
"""


def _told(folder: Path, way: str) -> list[Finding]:
    found = findings_of(folder, DIVIDED.format(way=way))
    return [one for one in found if "are divided by 2 between" in one.what]


@pytest.mark.slow
@pytest.mark.parametrize("way", ["replicated", "sharded"])
def test_gradients_that_are_divided_once_more_are_told(way: str, tmp_path: Path) -> None:
    (found,) = _told(tmp_path, way)
    assert (found.remark, marked(found)) == (True, {"steps"})


@pytest.mark.slow
@pytest.mark.parametrize("way", ["left", "clipped", "accumulated"])
def test_gradients_that_are_not_are_left_alone(way: str, tmp_path: Path) -> None:
    assert _told(tmp_path, way) == []
