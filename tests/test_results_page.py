"""The page of results is renewed by one command, which must find every block of it."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
RENEW = [sys.executable, "benchmarks/results.py"]


def listed(*words: str) -> list[str]:
    done = subprocess.run(
        [*RENEW, "--list", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    return done.stdout.splitlines()


def test_every_block_with_a_prompt_is_renewed():
    page = (ROOT / "docs" / "results.md").read_text()
    prompts = re.findall(r"^```console\n(\$ .+)$", page, re.M)
    assert listed() == prompts
    assert len(set(prompts)) == len(prompts)


def test_blocks_are_chosen_by_a_word_of_heading_or_command():
    assert listed("--only", "SIMULATE_RING") == ["$ python benchmarks/simulate_ring.py"]
    assert "$ python benchmarks/simulate_gpt3.py" in listed("--only", "the simulator")


def test_the_benchmarks_that_the_page_names_are_there():
    for command in listed():
        for script in re.findall(r"benchmarks/\w+\.py", command):
            assert (ROOT / script).is_file(), command
