"""Stages of a pipeline that clip their gradients, by one norm or each by its own."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding

CLIPPED = """
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
way = {way!r}
torch.manual_seed(rank)
part = nn.Linear(32, 32) if rank == 0 else nn.Linear(32, 8)
stage = PipelineStage(part, rank, 2, torch.device("cpu"))
schedule = ScheduleGPipe(stage, 4, loss_fn=nn.functional.cross_entropy)
optimizer = torch.optim.SGD(part.parameters(), lr=0.5)
for step in range(6):
    rows, labels = torch.randn(16, 32), torch.randint(8, (16,))
    optimizer.zero_grad()
    schedule.step(rows) if rank == 0 else schedule.step(target=labels)
    if way == "own norms":
        nn.utils.clip_grad_norm_(part.parameters(), 0.05)  # clips
    elif way == "never long":
        nn.utils.clip_grad_norm_(part.parameters(), 1000.0)
    else:
        norm = nn.utils.get_total_norm([one.grad for one in part.parameters()])
        dist.all_reduce(square := norm.square())
        nn.utils.clip_grads_with_norm_(part.parameters(), 0.05, square.sqrt())
    optimizer.step()
dist.destroy_process_group()
"""


def _told(folder: Path, way: str) -> list[Finding]:
    found = findings_of(folder, CLIPPED.format(way=way))
    return [one for one in found if "each of its stages clips" in one.what]


@pytest.mark.slow
def test_stages_that_clip_by_their_own_norms_are_told(tmp_path: Path) -> None:
    (found,) = _told(tmp_path, "own norms")
    assert found.ranks == [0, 1]
    assert marked(found) == {"clips"}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["one norm", "never long"])
def test_stages_that_are_not_scaled_apart_are_left_alone(way: str, tmp_path: Path) -> None:
    assert _told(tmp_path, way) == []
