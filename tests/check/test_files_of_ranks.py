"""Ranks that write one file, or read what another is writing, and ranks that keep apart."""

from pathlib import Path

import pytest

from observed_scripts import findings_of, marked
from steptime.check.finding import Finding, FindingKind

START = """
import os, pathlib, tempfile, time
other, mine = (pathlib.Path(f"{name}.pt") for name in ("other", f"of-{rank}"))
state = {"weight": torch.ones(1 << 20)}
"""
END = """
dist.barrier()
dist.destroy_process_group()
"""
ALL_SAVE = """
dist.barrier()
torch.save(state, pathlib.Path("all.pt"))  # saves
"""
OPEN = """
dist.barrier()
with open("all.pt", "wb") as file:
    torch.save(state, f=file)  # saves
"""
SAFE = """
if rank == 0:
    pathlib.Path("safetensors").mkdir()
    pathlib.Path("safetensors/__init__.py").touch()
    pathlib.Path("safetensors/torch.py").write_text('''
def save_file(tensors, filename, metadata=None):
    open(filename, "wb").write(b"0")
''')
dist.barrier()
from safetensors.torch import save_file
save_file(state, filename="all.safetensors")  # saves
"""
PLAIN = """
import json
dist.barrier()
with open("all.json", "w") as file:  # saves
    json.dump(list(range(100)), file)
"""
PATHS = """
import numpy
dist.barrier()
numpy.save("all.npy", numpy.ones(100))  # saves
"""
READS = """
if rank == 0:
    with open("all.pt", "wb") as file:
        torch.save(state, file)
dist.barrier()
class Slow:
    def __reduce__(self):
        time.sleep(1)
        return dict, ()
if rank == 0:
    torch.save(Slow(), "all.pt")  # saves
else:
    time.sleep(0.5)
    try:
        torch.load("all.pt")  # loads
    except (EOFError, RuntimeError):
        pass
"""
RIGHT = """
torch.save(state, mine)
for name, mode in ("all.log", "a"), ("all.lock", "w"), (f"{rank}.txt", "w"), (os.devnull, "w"):
    with open(name, mode) as file:
        file.write("one line")
for name in "fonts.json.own-lock", "fonts.json":  # which matplotlib writes so, as it is imported
    with open(name, "w") as file:
        file.write("one line")
if rank == 0:
    torch.save(state, "all.pt")
dist.barrier()
torch.load("all.pt")
torch.load(mine)
time.sleep(1.5)
dist.barrier()
if rank == 1:
    torch.save(state, "all.pt")
with tempfile.NamedTemporaryFile() as own:
    torch.save(state, own)
with open(os.devnull, "wb") as nothing:
    torch.save(state, nothing)
"""


def _races(folder: Path, body: str) -> list[Finding]:
    found = findings_of(folder, START + body + END)
    return [one for one in found if one.kind is FindingKind.RACE]


@pytest.mark.parametrize(
    "body",
    [
        *(ALL_SAVE, PLAIN),
        *(pytest.param(one, marks=pytest.mark.slow) for one in (OPEN, SAFE, PATHS)),
    ],
    ids=["by name", "plain", "open", "safetensors", "numpy"],
)
def test_a_file_that_all_ranks_write_is_told(body: str, tmp_path: Path) -> None:
    (found,) = _races(tmp_path, body)
    assert (list(found.ranks), marked(found)) == ([0, 1], {"saves"})
    assert "write the same file all." in found.what


@pytest.mark.slow
def test_who_reads_what_another_writes_is_told(tmp_path: Path) -> None:
    (found,) = _races(tmp_path, READS)
    assert (list(found.ranks), marked(found)) == ([1], {"saves", "loads"})
    assert found.what.startswith("Rank 1 reads all.pt while rank 0 writes it")


def test_files_of_ones_own_and_in_turn_are_right(tmp_path: Path) -> None:
    assert _races(tmp_path, RIGHT) == []
