"""Weights that two stages of a pipeline have from each other, and step apart."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding

STAGES = """
from torch import nn
way = {way!r}
torch.manual_seed(0)
embedding = nn.Embedding(16, 16)
if way == "by one seed":
    torch.manual_seed(0)
    stage = nn.Sequential(*([embedding] if rank == 0 else []), nn.Linear(16, 16))
    tied = stage[-1].weight
else:
    stage = embedding if rank == 0 else nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 16))
    tied = stage.weight if rank == 0 else stage[1].weight
    if way != "two weights":
        dist.broadcast(tied.data, src=0)
optimizer = torch.optim.SGD(stage.parameters(), lr=0.1)
for step in range(4):
    tokens = torch.randint(16, (8, 4), generator=torch.Generator().manual_seed(step))
    if rank == 0:
        dist.send((made := stage(tokens)).detach(), dst=1)
        dist.recv(gradient := torch.empty_like(made), src=1)
        made.backward(gradient)
    else:
        dist.recv(given := torch.empty(8, 4, 16), src=0)
        logits = stage(given.requires_grad_())
        nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten()).backward()
        dist.send(given.grad, dst=0)
    if way == "summed":
        dist.all_reduce(tied.grad)
    optimizer.step()  # steps
    optimizer.zero_grad()
dist.destroy_process_group()
"""


def _told(folder: Path, way: str) -> list[Finding]:
    found = findings_of(folder, STAGES.format(way=way))
    return [one for one in found if "as tied weights are" in one.what]


def test_tied_weights_that_are_stepped_apart_are_told(tmp_path: Path) -> None:
    (found,) = _told(tmp_path, "apart")
    assert found.what.startswith("The embedding of rank 0 is the last layer of rank 1, 16 × 16")
    assert (list(found.ranks), marked(found)) == ([0, 1], {"steps"})


@pytest.mark.slow
@pytest.mark.parametrize("way", ["summed", "two weights", "by one seed"])
def test_weights_that_are_one_or_two_are_left_alone(way: str, tmp_path: Path) -> None:
    assert _told(tmp_path, way) == []
