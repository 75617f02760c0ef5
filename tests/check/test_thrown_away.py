"""Gradients that DDP reduces and nobody uses, as of a discriminator by the generator's loss."""

from pathlib import Path

import pytest

from observed_scripts import findings_at_last, findings_of, marked
from steptime.check.finding import Finding, FindingKind

ADVERSARIES = """
from torch import nn
from torch.nn.parallel import DistributedDataParallel
way = {way!r}
torch.set_num_threads(1)
torch.manual_seed(0)
generator = DistributedDataParallel(nn.Linear(16, 512))
judge = DistributedDataParallel(nn.Sequential(nn.Linear(512, 2048), nn.Linear(2048, 1)))
of_generator = torch.optim.SGD(generator.parameters(), lr=0.01)
of_judge = torch.optim.SGD(judge.parameters(), lr=0.01)
torch.manual_seed(1 + rank)
for _ in range(12):
    with torch.no_grad():
        made = generator(torch.randn(8, 16))
    of_judge.zero_grad()
    judge(torch.cat([made, torch.randn(8, 512)])).square().mean().backward()
    of_judge.step()
    judge.requires_grad_(way != "frozen")
    of_generator.zero_grad()
    scores = judge(generator(torch.randn(8, 16)))  # runs
    scores.mean().backward()  # reduces
    judge.requires_grad_(True)
    if way == "used":
        of_judge.step()
    of_generator.step()
dist.destroy_process_group()
"""


def _thrown(found: list[Finding]) -> list[Finding]:
    return [one for one in found if "cleared before any step is made by them" in one.what]


def test_gradients_that_are_reduced_and_cleared_are_told(tmp_path: Path) -> None:
    script = ADVERSARIES.format(way="cleared")
    (one,) = _thrown(findings_at_last(tmp_path, script, lambda found: bool(_thrown(found))))
    assert one.kind is FindingKind.SLOW
    assert marked(one) == {"runs", "reduces"}
    assert "4.21 MB" in one.what
    assert one.gain is not None
    assert 0 < one.gain < 1


@pytest.mark.slow
@pytest.mark.parametrize("way", ["frozen", "used"])
def test_gradients_that_are_used_or_not_made_are_left_alone(way: str, tmp_path: Path) -> None:
    assert not _thrown(findings_of(tmp_path, ADVERSARIES.format(way=way)))
