"""Ranks killed at random moments, in short; ``benchmarks/kill_ranks.py`` kills a hundred."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

KILL_RANKS = Path(__file__).parents[2] / "benchmarks" / "kill_ranks.py"
CASES = ("ddp", "fsdp2", "messages", "arena", "groups")
TIMES = 4


@pytest.mark.slow
def test_the_others_raise_and_end_when_a_rank_is_killed(tmp_path: Path) -> None:
    """However late on a busy machine: none hangs, is aborted, or leaves a process."""
    kept = tmp_path / "kills"
    done = subprocess.run(
        [
            *(sys.executable, KILL_RANKS, "--backends", "steptime", "--seed", "1"),
            *("--cases", ",".join(CASES), "--times", str(TIMES), "--keep", kept, "--timeout", "8"),
        ],
        capture_output=True,
        text=True,
        timeout=1100,
        check=False,
    )
    assert "left behind: no process" in done.stdout, done.stderr
    kills = [json.loads(line)[1] for line in kept.read_text().splitlines()]
    assert len(kills) == TIMES * len(CASES)
    for others in kills:
        for one in others:
            assert one["raised_s"] is not None, one
            assert one["ended_s"] is not None, one
            assert one["code"] == 1, one
            assert "LostContactError" in one["what"], one
