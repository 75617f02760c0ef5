"""Installed without PyTorch: what needs none works, and what needs it says so in one sentence."""

import json
import subprocess
import sys

import pytest
from command import HANG_S, Ended

CLUSTER = "--cluster dgx-h100 --ranks 2"
LEAVE = f"simulate gpt2-124M --strategy replicated {CLUSTER} --out run"
WORK = [
    "--help",
    "train --help",
    "show ring",
    "verify ring --ranks 4",
    LEAVE,
    "report run",
    "cluster show dgx-h100",
    "topo",
    "export run --to goal",
    "diff run run",
    "history run",
    "proxy gpt2-124M --ranks 2 --dry-run",
    f"proxy gpt2-124M {CLUSTER}",
    f"scale gpt2 {CLUSTER}",
]
REFUSED = [
    f"{words} --json" for words in ("train", "compare", "scale --ranks 1,2", "topo --measure")
]
ALL = """
import json, sys
sys.modules["torch"] = None
sys.path[:0] = json.loads(sys.argv[1])
from pathlib import Path
from cli.command import here
ended = {words: vars(here(*words.split(), folder=Path())) for words in json.loads(sys.argv[2])}
json.dump(ended, open("ended.json", "w"))
"""
"""One command after the other in a process that finds no torch, though it is installed."""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """How each command ended, by its words."""
    folder = tmp_path_factory.mktemp("without")
    words = [sys.executable, "-c", ALL, json.dumps(sys.path), json.dumps([*WORK, *REFUSED])]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    found = json.loads((folder / "ended.json").read_text())
    return {words: Ended(**one) for words, one in found.items()}


@pytest.mark.parametrize("command", WORK)
def test_what_needs_no_torch_works_without(command: str, ended: dict[str, Ended]) -> None:
    assert ended[command].code == 0, ended[command].err
    assert ended[command].out


@pytest.mark.parametrize("command", REFUSED)
def test_what_needs_torch_says_so_before_ranks_start(command: str, ended: dict[str, Ended]) -> None:
    refused, verb = ended[command], command.split()[0]
    assert refused.code == 2
    assert refused.json["error"].startswith(f"{verb} needs PyTorch: pip install 'steptime[train]'")
    assert refused.err == f"steptime: {refused.json['error']}\n"
