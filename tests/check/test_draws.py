"""Noise and time steps that ranks draw by one seed, for samples of their own."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding

DRAWN = """
from torch import nn
way = {way!r}

class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)
    def forward(self, noisy, times, mask):
        return self.linear(noisy * mask) + times.unsqueeze(1)

torch.manual_seed(0)
model = nn.parallel.DistributedDataParallel(Denoiser())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
drawn = torch.Generator().manual_seed(rank if way == "own seeds" else 0)
own = torch.Generator().manual_seed(1 + rank)
for step in range(6):
    samples = torch.randn(8, 16, generator=own)
    times = torch.rand(8, generator=drawn)
    if way == "one time":
        times = torch.full((8,), step / 6)
    if way == "parts of samples":
        dist.all_to_all_single(torch.empty_like(samples), samples)
    optimizer.zero_grad()
    model(samples, times, mask=torch.ones(8, 16)).square().mean().backward()  # runs
    optimizer.step()
dist.destroy_process_group()
"""


def _told(folder: Path, way: str) -> list[Finding]:
    found = findings_of(folder, DRAWN.format(way=way))
    return [one for one in found if "draws noise or time steps" in one.what]


@pytest.mark.slow
def test_what_ranks_draw_by_one_seed_is_told(tmp_path: Path) -> None:
    (found,) = _told(tmp_path, "one seed")
    assert "number 2 of the 3 tensors" in found.what
    assert (found.remark, marked(found)) == (True, {"runs"})


@pytest.mark.slow
@pytest.mark.parametrize("way", ["own seeds", "one time", "parts of samples"])
def test_what_may_be_alike_is_left_alone(way: str, tmp_path: Path) -> None:
    assert _told(tmp_path, way) == []
