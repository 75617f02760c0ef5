"""Settings by which ranks train one model: its modules', those of losses, and of autocast."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding, FindingKind

TRAINED = """
from torch import nn
way = {way!r}
first = rank == 0
torch.manual_seed(0)
drop = 0.5 if way == "dropout" and first else 0.1
net = nn.Sequential(nn.Linear(8, 8), nn.Dropout(drop), nn.Linear(8, 4))
if way == "shards":
    from torch.distributed.fsdp import fully_shard
    net[1].p = 0.2 if first else 0.3
    model = fully_shard(net)
else:
    model = nn.parallel.DistributedDataParallel(net)
labels = torch.randint(0, 4, (64,), generator=torch.Generator().manual_seed(rank))
counts = labels.bincount(minlength=4).float()
if way == "weights of all":
    dist.all_reduce(counts)
weight = 1 / counts if "weights" in way else None

class Own(nn.CrossEntropyLoss):
    def __init__(self):
        super().__init__()
        self.rank = rank

criterion = Own() if way == "its own rank" else nn.CrossEntropyLoss(weight)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for step in range(3):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=way == "autocast" and first):
        made = model(torch.randn(8, 8))  # model
        criterion(made, labels[8 * step : 8 * step + 8]).backward()  # loss
    optimizer.step()
dist.destroy_process_group()
"""


def _told(folder: Path, way: str) -> list[Finding]:
    found = findings_of(folder, TRAINED.format(way=way))
    return [one for one in found if "by other settings" in one.what]


@pytest.mark.parametrize(
    ("way", "line", "told"),
    [
        ("dropout", "model", "Dropout 1 has p=0.5 on rank 0 and p=0.1 on rank 1"),
        pytest.param(*("shards", "model", "has p=0.2 on rank 0 and p=0.3"), marks=pytest.mark.slow),
        pytest.param(*("autocast", "model", "torch.bfloat16 on rank 0"), marks=pytest.mark.slow),
        pytest.param(*("weights", "loss", "CrossEntropyLoss has weight=["), marks=pytest.mark.slow),
    ],
)
def test_settings_that_ranks_do_not_share_are_told(
    way: str, line: str, told: str, tmp_path: Path
) -> None:
    (found,) = _told(tmp_path, way)
    assert (found.kind, list(found.ranks)) == (FindingKind.DRIFT, [0, 1])
    assert told in found.what
    assert marked(found) == {line}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["alike", "weights of all", "its own rank"])
def test_settings_that_ranks_share_are_left_alone(way: str, tmp_path: Path) -> None:
    assert _told(tmp_path, way) == []
