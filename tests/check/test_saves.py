"""Checkpoints saved beside the training, and whole numbers in types that cannot hold them."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding, FindingKind

SAVED = """
import tempfile, time
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint import FileSystemWriter
way = {way!r}
side = dist.new_group(backend="gloo")
folder = [tempfile.mkdtemp(dir={folder!r}) if rank == 0 else ""]
dist.broadcast_object_list(folder)

class Slow(FileSystemWriter):
    def write_data(self, plan, planner):
        if way == "failing":
            raise OSError("the disk is full")
        time.sleep(0.5)
        return super().write_data(plan, planner)

saving = checkpoint.async_save(  # saves
    dict(weights=torch.ones(64)), storage_writer=Slow(folder[0]), process_group=side
)
if way == "awaited":
    saving.result()
while way == "failing" and not saving.done():
    time.sleep(0.05)
dist.destroy_process_group()  # ends
"""


def _races(folder: Path, way: str) -> list[Finding]:
    found = findings_of(folder, SAVED.format(way=way, folder=str(folder)))
    return [one for one in found if one.kind is FindingKind.RACE]


@pytest.mark.parametrize(
    ("way", "words", "lines"),
    [
        ("left", "is still being saved when", {"saves", "ends"}),
        pytest.param("failing", "was not saved, and nobody", {"saves"}, marks=pytest.mark.slow),
    ],
)
def test_saves_that_nobody_waits_for_are_told(
    way: str, words: str, lines: set[str], tmp_path: Path
) -> None:
    found = _races(tmp_path, way)
    assert found
    assert all(words in one.what for one in found)
    assert marked(found[0]) == lines


@pytest.mark.slow
def test_saves_that_are_waited_for_are_left_alone(tmp_path: Path) -> None:
    assert _races(tmp_path, "awaited") == []


COUNTED = """
dtype, seen = getattr(torch, {dtype!r}), {seen}
for _ in range(3):
    dist.all_reduce(torch.tensor([seen + rank, 1.0], dtype=torch.float64).to(dtype))  # sums
dist.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("dtype", "seen", "told"),
    [
        ("bfloat16", 200, True),
        pytest.param("float16", 1200, True, marks=pytest.mark.slow),
        pytest.param("bfloat16", 100, False, marks=pytest.mark.slow),
        pytest.param("float16", 200, False, marks=pytest.mark.slow),
        pytest.param("float32", 200, False, marks=pytest.mark.slow),
    ],
)
def test_counts_that_their_type_can_only_round_are_told(
    dtype: str, seen: int, told: bool, tmp_path: Path
) -> None:
    found = findings_of(tmp_path, COUNTED.format(dtype=dtype, seen=seen))
    assert [one.kind for one in found] == [FindingKind.RACE] * told
    assert [marked(one) for one in found] == [{"sums"}] * told
