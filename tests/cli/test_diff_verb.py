"""diff and history from end to end, on made runs and on revisions that train."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import Ended, here, tiny
from rich.console import Console

from runs_made import environment, training
from steptime.report.diff_lines import print_diff
from steptime.report.history_lines import print_history
from steptime.runs.run_folder import read_record

ROOT = Path(__file__).parents[2]
LOOP = Path("src/steptime/train/loop.py")
END = "        if training.precision.scaled and not left_out:\n            scale = scale.after"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs a1, a2 and b1, b2, of which those of b are 30 % slower, and one of four ranks."""
    path = tmp_path_factory.mktemp("runs")
    noise = np.random.default_rng(0).uniform(0.99, 1.01, (4, 40))
    for number, (name, step_s) in enumerate([("a1", 0.1), ("a2", 0.1), ("b1", 0.13), ("b2", 0.13)]):
        training(
            path / name,
            (step_s * noise[number]).tolist(),
            environment=environment(time=f"2026-11-2{number}T18:00:00+00:00"),
        )
    training(path / "four", (0.1 * noise[0]).tolist(), ranks=4, environment=environment())
    return path


def test_the_contract(folder: Path) -> None:
    ended = here("diff", "a1", "b1", "--json", folder=folder)
    assert (ended.code, ended.err) == (0, "")
    found = ended.json
    assert (found["verb"], found["different"], found["source"]) == ("diff", True, "measured")
    assert found["ci95"][0] < found["ratio"] < found["ci95"][1]
    assert found["ratio"] == pytest.approx(1.3, rel=0.01)
    assert list(found["phases"]) == ["compute", "exposed_comm", "update", "other"]


def test_what_is_said(folder: Path) -> None:
    slower = here("diff", "a1", "b1", folder=folder)
    faster = here("diff", "b1", "a1", folder=folder)
    same = here("diff", "a1", "a2", folder=folder)
    assert [ended.code for ended in (slower, faster, same)] == [0, 0, 0]
    assert "% slower than A" in slower.out
    assert "% faster than A" in faster.out
    assert "no difference" in same.out
    assert "no difference" not in slower.out + faster.out


@pytest.mark.parametrize(
    ("sides", "limit", "code"),
    [
        (("a1", "b1"), "5%", 1),
        (("a1", "b1"), "60%", 0),
        (("b1", "a1"), "5%", 0),
        (("a1", "a2"), "0%", 0),
    ],
)
def test_fail_over(folder: Path, sides: tuple[str, str], limit: str, code: int) -> None:
    ended = here("diff", *sides, "--fail-over", limit, "--json", folder=folder)
    assert (ended.code, ended.json["failed"]) == (code, bool(code))


def test_several_runs_of_each(folder: Path) -> None:
    found = here("diff", "a1,a2", "b1,b2", "--json", folder=folder).json
    assert found["different"]
    assert [len(found[side]) for side in "ab"] == [2, 2]


@pytest.mark.parametrize("width", [80, 160])
def test_lines_fit_the_terminal_without_colour(folder: Path, width: int) -> None:
    record = here("diff", "a1", "b1", "--json", "--fail-over", "5%", folder=folder).json
    runs = here("history", ".", "--json", folder=folder).json
    for print_it, run in ((print_diff, record), (print_history, runs)):
        console = Console(width=width, color_system=None, force_terminal=False)
        with console.capture() as told:
            print_it(console, run)
        assert max(map(len, told.get().splitlines())) <= width
        assert "\x1b" not in told.get()
        assert "…" not in told.get()


@pytest.mark.parametrize("seconds", [1e-9, 9.949e-5, 1e-4, 0.01, 3.14159, 999.9])
def test_a_table_of_any_times_is_whole_in_80_columns(folder: Path, seconds: float) -> None:
    record = here("diff", "a1", "b1", "--json", folder=folder).json
    part = {
        **record["phases"]["exposed_comm"],
        "a_s": seconds,
        "b_s": 2 * seconds,
        "ci95_s": [-seconds, seconds],
    }
    record["phases"]["exposed_comm"] = part
    record["exposed"] = {"imbalance": part, "dependency": part}
    record["ci95"] = [0.5, 1 + 1e6 * seconds]
    console = Console(width=80, color_system=None, force_terminal=False)
    with console.capture() as told:
        print_diff(console, record)
    lines = told.get().splitlines()
    rule = next(line for line in lines if line.startswith("───"))
    table = lines[lines.index(rule) - 2 :][:9]
    assert "95 % interval" in table[0]
    assert "…" not in told.get()
    assert not [line for line in table if "µs" in line], "the heading says ms"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("a1", "four"), "2 ranks and 4 ranks"),
        (("a1",), "compares two runs and got 1"),
        (("a1", "nowhere"), "nowhere is no folder"),
        (("a1", "b1", "--fail-over", "5"), "write a percentage"),
        (("a1", "b1", "--pairs", "3"), "--pairs is about --against"),
        (("a1", "b1", "--see", "5%"), "--see is about --against"),
        (("a1", "b1", "--within", "5min"), "--within is about --against"),
        (("--against", "HEAD", "--within", "5min", "train"), "--within is about --see"),
        (("--against", "HEAD", "--see", "5%", "--within", "0s", "train"), "no time at all"),
        (("--against", "HEAD", "--see", "0%", "train"), "no number of runs would show"),
        (("--against", "HEAD", "--see", "5%", "--pairs", "7", "train"), "--see takes 8"),
        (("a1", "b1", "--strategy", "server"), "has no strategy 'server'"),
        (("--against", "HEAD", "bench"), "got 'bench'"),
        (("--against", "no-such-revision", "train"), "has no revision"),
        (("--against", "HEAD", "--pairs", "1", "train"), "takes 2 or more"),
    ],
)
def test_refusals(folder: Path, words: tuple[str, ...], said: str) -> None:
    ended = here("diff", *words, folder=folder)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert ended.err.count("\n") == 1


def test_history_lists_and_plots(folder: Path) -> None:
    ended = here("history", ".", "--html", "page.html", folder=folder)
    assert (ended.code, ended.err) == (0, "")
    assert "4 runs" in ended.out
    for name in ("a1", "a2", "b1", "b2", "four"):
        assert ended.out.count(name) == 1
    assert max(map(len, ended.out.splitlines())) <= 80
    page = (folder / "page.html").read_text()
    assert "2026-11-23T18:00:00" in page
    assert "http://" not in page.split("<script>")[0]


def test_history_of_nothing_is_refused(tmp_path: Path) -> None:
    ended = here("history", folder=tmp_path)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "runs is no folder" in ended.err


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    subprocess.run(["git", "-C", folder, *who, *words], check=True, capture_output=True)


def against(repository: Path, *words: str) -> Ended:
    """Run the steptime of ``repository``, as one who works in that checkout does."""
    environ = {**os.environ, "PYTHONPATH": str(repository / "src")}
    done = subprocess.run(
        [sys.executable, "-m", "steptime", *words],
        cwd=repository.parent,
        env=environ,
        capture_output=True,
        text=True,
        timeout=600,
    )
    return Ended(done.returncode, done.stdout, done.stderr, 0.0)


@pytest.mark.slow
def test_a_slower_revision_is_found(text: Path, tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    shutil.copytree(ROOT / "src", repository / "src", ignore=shutil.ignore_patterns("__pycache__"))
    git(repository, "init", "--quiet")
    git(repository, "add", "--all")
    git(repository, "commit", "--message", "fast")
    loop = (repository / LOOP).read_text()
    assert loop.count(END) == 1
    slow = loop.replace(END, f"            __import__('time').sleep(1)\n{END}")
    (repository / LOOP).write_text(slow)

    words = tiny(text, ranks=1, steps=4)
    asked = ("--pairs", "2", "--json", "--out", "out")
    ended = against(repository, "diff", "--against", "HEAD", *asked, "--", "train", *words)
    assert (ended.code, ended.err) == (0, "")
    found: Any = json.loads(ended.out)
    # However busy the machine is: a sleep is never shorter, and is no phase that has a name.
    assert found["step_time_s"]["a"] < 1 < found["step_time_s"]["b"]
    assert found["phases"]["other"]["a_s"] < 0.7 < found["phases"]["other"]["b_s"]
    assert [len(found[side]) for side in "ab"] == [2, 2]
    assert not found["a"][0]["git_revision"].endswith("-dirty")
    assert found["b"][0]["git_revision"].endswith("-dirty")
    assert read_record(tmp_path / "out")["ratio"] == found["ratio"]
    listed = subprocess.run(
        ["git", "-C", repository, "worktree", "list"], capture_output=True, check=True, text=True
    )
    assert len(listed.stdout.splitlines()) == 1
