"""A revision in a worktree, which takes turns with another and leaves nothing behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from steptime.errors import SteptimeError, UsageError
from steptime.study.diff_against import (
    Checkout,
    check_command,
    checkout,
    resolve,
    take_turns,
    worktree,
)

PROGRAM = """
import os, pathlib, sys, time
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
log = pathlib.Path(os.environ["LOG"])
with log.open("a") as lines:
    lines.write(f"{MARK} {out.parent.name}/{out.name} {os.getcwd()}\\n")
if "--fail" in sys.argv:
    sys.exit("steptime: it broke")
if "--hang" in sys.argv:
    time.sleep(1200)
out.mkdir(parents=True)
(out / "run.json").write_text("{}")
"""

STOPPED = """
import sys
from pathlib import Path
from steptime.study.diff_against import Checkout, resolve, stoppable, take_turns, worktree
tree = Checkout(Path(sys.argv[1]), Path("src"))
with stoppable(), worktree(tree, resolve(tree, "first", "train")) as source:
    list(take_turns({"a": source}, ["train", "--hang"], 2, Path(sys.argv[2]), lambda _: None))
"""


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    subprocess.run(["git", "-C", folder, *who, *words], check=True, capture_output=True)


def commit(folder: Path, mark: str) -> None:
    """A steptime that says ``mark`` and leaves a record."""
    package = folder / "src" / "steptime"
    (package / "cli").mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(f"MARK = {mark!r}\n{PROGRAM}")
    (package / "cli" / "train.py").touch()
    git(folder, "add", "--all")
    git(folder, "commit", "--message", mark)
    git(folder, "tag", mark)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    commit(folder, "first")
    commit(folder, "second")
    return folder


@pytest.fixture
def tree(repository: Path) -> Iterator[Checkout]:
    yield checkout(repository / "src" / "steptime")
    assert worktrees(repository) == 1


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    return tmp_path / "log"


def worktrees(repository: Path) -> int:
    listed = subprocess.run(
        ["git", "-C", repository, "worktree", "list"], capture_output=True, check=True, text=True
    )
    return len(listed.stdout.splitlines())


def quietly(_: str) -> None:
    pass


def test_both_revisions_take_turns(tree: Checkout, log: Path, tmp_path: Path) -> None:
    told: list[str] = []
    with worktree(tree, resolve(tree, "HEAD~1", "train")) as first:
        sides = {"a": first, "b": tree.root / tree.source}
        done = list(take_turns(sides, ["train"], 2, tmp_path / "out", told.append))
    assert not first.exists()
    here = Path.cwd()
    assert log.read_text().splitlines() == [
        f"first a/1 {here}",
        f"second b/1 {here}",
        f"first a/2 {here}",
        f"second b/2 {here}",
    ]
    assert done == [{side: tmp_path / "out" / side / n for side in "ab"} for n in "12"]
    assert told == ["A 1 of 2", "B 1 of 2", "A 2 of 2", "B 2 of 2"]


@pytest.mark.usefixtures("log")
def test_a_run_that_fails_is_told_with_its_reason(tree: Checkout, tmp_path: Path) -> None:
    sides = {"a": tree.root / tree.source}
    with pytest.raises(SteptimeError, match="run 1 of A failed: it broke"):
        next(take_turns(sides, ["train", "--fail"], 2, tmp_path / "out", quietly))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_nothing_is_left_when_it_is_stopped(
    tree: Checkout, log: Path, tmp_path: Path, number: signal.Signals
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    words = [sys.executable, "-c", STOPPED, str(tree.root), str(tmp_path / "out")]
    process = subprocess.Popen(
        words,
        env={**os.environ, "TMPDIR": str(temporary)},
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # nohup ignores it
    )
    deadline = time.monotonic() + 600
    while not log.exists():
        assert time.monotonic() < deadline, "it did not start"
        assert process.poll() is None
        time.sleep(0.05)
    assert worktrees(tree.root) == 2
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert len(children) == 1
    process.send_signal(number)
    assert process.wait(600) != 0
    assert not Path("/proc", children[0]).exists()
    assert list(temporary.iterdir()) == []


def test_outside_a_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs a git checkout"):
        checkout(tmp_path)


def test_a_package_that_git_does_not_know_is_no_checkout(repository: Path) -> None:
    installed = repository / "venv" / "steptime"
    installed.mkdir(parents=True)
    (installed / "__init__.py").touch()
    with pytest.raises(UsageError, match="needs a git checkout"):
        checkout(installed)


@pytest.mark.parametrize("revision", ["HEAD~9", "nowhere", "--all", ""])
def test_an_unknown_revision_is_refused(tree: Checkout, revision: str) -> None:
    with pytest.raises(UsageError, match="has no revision"):
        resolve(tree, revision, "train")


def test_a_revision_without_the_verb_is_refused(tree: Checkout) -> None:
    with pytest.raises(UsageError, match="steptime proxy is not in revision first"):
        resolve(tree, "first", "proxy")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "got nothing"),
        (["bench"], "got 'bench'"),
        (["train", "--out", "x"], "has --out"),
        (["train", "--json"], "has --json"),
        (["train", "--out=x"], "has --out=x"),
    ],
)
def test_a_command_that_cannot_be_compared_is_refused(words: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_command(words)
