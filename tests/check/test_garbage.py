"""Steps in which Python's garbage collector keeps a rank."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import FindingKind
from steptime.check.judges import garbage

BODY = """
import gc
from torch import nn
from torch.nn.parallel import DistributedDataParallel
gc.collect()
gc.disable()
model = DistributedDataParallel(nn.Linear(16, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
index = [[number] for number in range(200_000)]
for step in range(8):
    if rank == {collecting} and step % 2:
        gc.collect()  # collects
    model(torch.ones(4, 16)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_it_is_told_where_it_came_of_the_rank_that_it_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(garbage, "_LEAST_NS", 1e6)
    found = findings_of(tmp_path, BODY.format(collecting=1))
    (told,) = (one for one in found if "garbage" in one.what)
    assert (told.kind, list(told.ranks), marked(told)) == (FindingKind.SLOW, [1], {"collects"})
    assert told.gain is not None
    assert 0.05 <= told.gain < 1


def test_steps_without_a_collection_are_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(garbage, "_LEAST_NS", 1e6)
    found = findings_of(tmp_path, BODY.format(collecting=-1))
    assert not [one for one in found if "garbage" in one.what]
