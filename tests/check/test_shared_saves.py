"""Checkpoints of all ranks: their paths, what each rank has of its own, what a load leaves out."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding, FindingKind

SAVED = """
import tempfile
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
way = {way!r}
folder = [tempfile.mkdtemp(dir={folder!r})]
dist.broadcast_object_list(folder)
torch.manual_seed(0)
model = nn.Linear(8, 8)
rule = torch.optim.SGD if way == "no moments" else torch.optim.AdamW
optimizer = rule(model.parameters(), lr=0.1)
noise = torch.Generator().manual_seed(rank if "noise" in way else 0)

def state():
    key = f"noise {{rank}}" if way == "noise by rank" else "noise"
    own = {{"model": model.state_dict(), key: noise.get_state()}}
    if way == "whole":
        own["optimizer"] = get_state_dict(model, optimizer)[1]
    elif "moments" in way:
        own["optimizer"] = optimizer.state_dict()
    return own

model(torch.ones(8)).sum().backward()
optimizer.step()
model.zero_grad()
path = f"{{folder[0]}}/step 1" + (f" of {{rank}}" if "paths" in way else "")
checkpoint.save(state(), checkpoint_id=path, no_dist=way == "own paths")  # saves
optimizer = rule(model.parameters(), lr=0.1)
if "paths" not in way:
    checkpoint.load(state(), checkpoint_id=path)  # loads
dist.barrier()
dist.destroy_process_group()
"""


def _told(folder: Path, way: str) -> list[Finding]:
    found = findings_of(folder, SAVED.format(way=way, folder=str(folder)))
    words = ("one checkpoint in several places", "under the one key 'noise'", "has no moments yet")
    return [one for one in found if any(word in one.what for word in words)]


@pytest.mark.parametrize(
    ("way", "words", "line"),
    [
        ("paths", "in several places", "saves"),
        ("noise", "under the one key 'noise'", "saves"),
        ("moments", "under 'optimizer' has no moments yet", "loads"),
    ],
)
def test_a_checkpoint_that_lacks_something_is_told(
    way: str, words: str, line: str, tmp_path: Path
) -> None:
    (one,) = _told(tmp_path, way)
    assert one.kind is FindingKind.RACE
    assert words in one.what
    assert one.ranks == [0, 1]
    assert marked(one) == {line}


@pytest.mark.slow
@pytest.mark.parametrize("way", ["whole", "noise by rank", "no moments", "own paths"])
def test_a_whole_checkpoint_is_left_alone(way: str, tmp_path: Path) -> None:
    assert not _told(tmp_path, way)
