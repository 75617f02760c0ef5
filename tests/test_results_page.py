"""The pages of results are renewed by one command, which must find every block of them."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs" / "results").glob("*.md"))
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
    prompts = [
        prompt
        for page in PAGES
        for prompt in re.findall(r"^```console\n(\$ .+)$", page.read_text(), re.M)
    ]
    assert listed() == prompts
    assert len(set(prompts)) == len(prompts)


def test_the_index_names_every_page_of_results():
    index = (ROOT / "docs" / "results.md").read_text()
    assert sorted(re.findall(r"\(results/([\w-]+\.md)\)", index)) == [one.name for one in PAGES]


def test_blocks_are_chosen_by_a_word_of_page_heading_or_command():
    assert listed("--only", "SIMULATE_RING") == ["$ python benchmarks/simulate_ring.py"]
    assert "$ python benchmarks/simulate_gpt3.py" in listed("--only", "the simulator")
    assert listed("--only", "house") == [
        "$ python benchmarks/pinned.py against 94eb923 || true",
        "$ python benchmarks/start_of_ranks.py",
    ]


def test_the_benchmarks_that_the_page_names_are_there():
    for command in listed():
        for script in re.findall(r"benchmarks/\w+\.py", command):
            assert (ROOT / script).is_file(), command
