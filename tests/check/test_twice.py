"""Gradients that DDP has averaged, and that the script reduces again."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import FindingKind

BODY = """
from contextlib import nullcontext
from torch import nn
from torch.nn.parallel import DistributedDataParallel
habit = {habit!r}
torch.manual_seed(0)
layers = nn.Sequential(nn.Linear(256, 512), nn.Linear(512, 256))
model = DistributedDataParallel(layers, gradient_as_bucket_view="views" in habit)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.manual_seed(1 + rank)
for _ in range(8):
    optimizer.zero_grad()
    with model.no_sync() if "no sync" in habit else nullcontext():
        model(torch.randn(8, 256)).square().mean().backward()
    if "by hand" in habit:
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)  # again
            parameter.grad /= 2
    optimizer.step()
"""


@pytest.mark.parametrize(
    "habit", ["by hand", pytest.param("by hand, of views", marks=pytest.mark.slow)]
)
def test_it_is_told_at_its_line_and_nothing_else_of_it(habit: str, tmp_path: Path) -> None:
    found = findings_of(tmp_path, BODY.format(habit=habit))
    (told,) = (one for one in found if marked(one) == {"again"})
    assert told.kind is FindingKind.SLOW
    assert "averaged in the backward" in told.what
    assert told.gain is not None
    assert 0.05 <= told.gain < 1


@pytest.mark.parametrize(
    "habit", ["views", pytest.param("by hand, after no sync", marks=pytest.mark.slow)]
)
def test_one_reduction_alone_is_no_second(habit: str, tmp_path: Path) -> None:
    found = findings_of(tmp_path, BODY.format(habit=habit))
    assert not [one for one in found if "averaged in the backward" in one.what]
