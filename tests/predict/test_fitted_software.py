"""The parameters of frameworks that ship are those that the measured rows give."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "fit_predictions.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    "names",
    [
        ("mlperf", "megascale", "megatron-2023", "deepspeed-2021"),
        ("nanotron", "llm-foundry", "megatron-2021", "megatron", "torchtitan", "nemo"),
    ],
    ids=["few rows", "many rows"],
)
def test_a_fit_anew_gives_what_ships(names: tuple[str, ...]) -> None:
    ended = subprocess.run(
        [sys.executable, str(SCRIPT), *names],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.rstrip().endswith("these are shipped")
