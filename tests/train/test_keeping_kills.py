"""A training whose ranks are killed ends as the one whose ranks are not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[2] / "benchmarks" / "kill_soak.py"


@pytest.mark.slow
def test_kills_change_no_bit_of_what_is_trained(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, SOAK, "--kills", "3"],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ", equal\n" in ended.stdout
    assert ended.stdout.splitlines()[-1].endswith(" trainings, 0 not equal")
    assert not list(tmp_path.glob("kill-soak-*"))  # of torchrun a folder stays
