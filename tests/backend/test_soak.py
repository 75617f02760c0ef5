"""Random collectives on real ranks, in short; ``benchmarks/soak.py`` does them by the thousand."""

import subprocess
import sys
from pathlib import Path

import pytest

SOAK = Path(__file__).parents[2] / "benchmarks" / "soak.py"


@pytest.mark.slow
def test_random_collectives_give_what_is_right_and_leave_nothing() -> None:
    ended = subprocess.run(
        [sys.executable, str(SOAK), "--calls", "1000", "--ranks", "3", "--seed", "7"],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "no wrong element, nothing left" in ended.stdout
    assert not ended.stderr
