"""The script that judges the backend by PyTorch's own tests, on tests whose answer is known."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

_TESTS = """
import os
import pytest
import torch
import torch.distributed as dist

@pytest.fixture
def group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()

def test_good(group):
    one = torch.ones(1)
    dist.all_reduce(one)
    assert one.item() == 1

def test_asks_for_the_name(group):
    assert dist.get_backend() == "gloo", "the wrong name"

def test_dies(group):
    if dist.get_backend() == "steptime":
        os._exit(3)

def test_is_after_one_that_dies(group):
    pass

def test_needs_no_group():
    pass

def test_fails_anywhere(group):
    raise AssertionError
"""


def _judged(folder: Path) -> list[str]:
    paths = [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [
            sys.executable,
            str(ROOT / "benchmarks" / "pytorch_tests.py"),
            str(folder),
            "--record",
            str(folder / "record.jsonl"),
        ],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.slow
def test_the_table_says_what_fails_on_steptime_alone(tmp_path):
    (tmp_path / "distributed").mkdir()
    (tmp_path / "distributed" / "test_device_mesh.py").write_text(_TESTS)
    lines = _judged(tmp_path)
    assert lines[1].split() == ["test_device_mesh.py", "4", "2", "2"]
    assert lines[3].startswith("others on gloo: 0 skipped, 1 idle, 1 failed")
    assert lines[4:] == [
        "test_device_mesh.py",
        "  test_asks_for_the_name",
        "    AssertionError: the wrong name",
        "test_device_mesh.py",
        "  test_dies",
        "    the process ended (3) or hung",
    ]
    record = (tmp_path / "record.jsonl").read_text()
    assert _judged(tmp_path) == lines
    assert (tmp_path / "record.jsonl").read_text() == record
