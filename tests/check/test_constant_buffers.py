"""Buffers that DDP sends before each forward: whether they ever change."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding

BUFFERS = """
from torch import nn
way = {way!r}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)
        self.norm = nn.BatchNorm1d(16)
        self.register_buffer("mask", torch.ones(2048, 1024))
        if way == "some change":
            self.register_buffer("memory", torch.zeros(1024, 1024))

    def forward(self, rows):
        if way == "all change":
            self.mask.mul_(0.999)
        if way == "some change":
            self.memory.add_(1)
        return self.norm(self.layer(rows)) * self.mask[0, :16]

torch.manual_seed(0)
sends = way != "not sent"
model = nn.parallel.DistributedDataParallel(Net(), broadcast_buffers=sends)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.manual_seed(1 + rank)
for step in range(8):
    optimizer.zero_grad()
    model(torch.randn(8, 16)).square().mean().backward()  # sends
    optimizer.step()
dist.destroy_process_group()
"""


def _told(folder: Path, way: str) -> list[Finding]:
    found = findings_of(folder, BUFFERS.format(way=way))
    return [one for one in found if "of buffers of Net" in one.what]


@pytest.mark.parametrize(
    ("way", "told"),
    [
        ("none changes", "sends 8.39 MB of buffers of Net"),
        pytest.param("some change", "8.39 MB of it never changes, as mask", marks=pytest.mark.slow),
    ],
)
def test_large_buffers_that_stay_as_they_are_are_told(way: str, told: str, tmp_path: Path) -> None:
    (found,) = _told(tmp_path, way)
    assert told in found.what
    assert marked(found) == {"sends"}
    assert found.gain is not None
    assert 0.05 <= found.gain < 1


@pytest.mark.slow
@pytest.mark.parametrize("way", ["all change", "not sent"])
def test_buffers_that_change_or_are_not_sent_are_left_alone(way: str, tmp_path: Path) -> None:
    assert _told(tmp_path, way) == []
