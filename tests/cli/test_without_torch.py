"""Installed without PyTorch: what needs none works, and what needs it says so in one sentence."""

import os
from pathlib import Path

import pytest
from command import Ended, run

CLUSTER = ("--cluster", "dgx-h100", "--ranks", "2")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Python finds no torch, and a run is left by one who had none."""
    path = tmp_path_factory.mktemp("without")
    (path / "sitecustomize.py").write_text("import sys\n\nsys.modules['torch'] = None\n")
    ended = without_torch(
        path, "simulate", "gpt2-124M", "--strategy", "replicated", *CLUSTER, "--out", "run"
    )
    assert ended.code == 0, ended.err
    return path


def without_torch(folder: Path, *words: str) -> Ended:
    """How a command ends that finds no torch, though it is installed."""
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    return run(*words, folder=folder, environ={"PYTHONPATH": path}, timeout=300)


@pytest.mark.parametrize(
    "command",
    [
        "--help",
        "train --help",
        "show ring",
        "verify ring --ranks 4",
        "report run",
        "cluster show dgx-h100",
        "topo",
        "export run --to goal",
        "diff run run",
        "history run",
        "proxy gpt2-124M --ranks 2 --dry-run",
        "proxy gpt2-124M --cluster dgx-h100 --ranks 2",
        "scale gpt2 --cluster dgx-h100 --ranks 2",
    ],
)
def test_what_needs_no_torch_works_without(command: str, folder: Path) -> None:
    ended = without_torch(folder, *command.split())
    assert ended.code == 0, ended.err
    assert ended.out


@pytest.mark.parametrize("command", ["train", "compare", "scale --ranks 1,2", "topo --measure"])
def test_what_needs_torch_says_so_before_ranks_start(command: str, folder: Path) -> None:
    ended = without_torch(folder, *command.split(), "--json")
    verb = command.split()[0]
    assert ended.code == 2
    assert ended.json["error"].startswith(f"{verb} needs PyTorch: pip install 'steptime[train]'")
    assert ended.err == f"steptime: {ended.json['error']}\n"
