"""The working tree against another revision: that is built in a worktree, and both take turns."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

import steptime
from steptime.errors import SteptimeError, UsageError
from steptime.runs.run_folder import RECORD

VERBS = ("train", "compare", "proxy")
"""The verbs whose steps can be compared."""

_OURS = ("--out", "--json", "--quiet")
_GRACE_S = 10.0
_LAST_WORDS = 2000


@dataclass(frozen=True)
class Checkout:
    """A git checkout that holds steptime: its root, and where its package is below that."""

    root: Path
    source: Path


def checkout(package: Path | None = None) -> Checkout:
    """The checkout that ``package``, by default the steptime that runs, belongs to.

    Raises UsageError where it does not belong to one.
    """
    package = package or Path(steptime.__file__).parent
    top = _git(package, "rev-parse", "--show-toplevel")
    tracked = top and _git(package, "ls-files", "--error-unmatch", "__init__.py")
    if not tracked:
        raise UsageError(
            f"--against needs a git checkout of steptime, and it runs from {package}: run it from "
            "one, as pip install -e does"
        )
    root = Path(str(top)).resolve()
    return Checkout(root, package.parent.resolve().relative_to(root))


def check_command(words: Sequence[str]) -> None:
    """Raise UsageError where ``words`` are no command whose steps can be compared."""
    if not words or words[0] not in VERBS:
        what = f"'{words[0]}'" if words else "nothing"
        raise UsageError(
            f"--against runs a command of {', '.join(VERBS)}, and got {what}: write it behind --, "
            "as -- train --ranks 2 --steps 40"
        )
    for word in words:
        if word.split("=")[0] in _OURS:
            raise UsageError(f"the command of --against has {word}, which diff sets: leave it out")


def resolve(tree: Checkout, revision: str, verb: str) -> str:
    """The commit that ``revision`` names.

    Raises UsageError where there is none, or its steptime has not the verb.
    """
    commit = _git(tree.root, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if not commit or revision.startswith("-"):
        raise UsageError(f"{tree.root} has no revision {revision!r}: git log lists them")
    file = tree.source / "steptime" / "cli" / f"{verb}.py"
    if _git(tree.root, "cat-file", "-t", f"{commit}:{file.as_posix()}") != "blob":
        raise UsageError(f"steptime {verb} is not in revision {revision}: take a later one")
    return commit


def _git(folder: Path, *words: str) -> str | None:
    """What git says, or None where it fails; never in reach of a Ctrl-C, which is ours."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True,
            text=True,
            check=True,
            start_new_session=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


@contextmanager
def worktree(tree: Checkout, commit: str) -> Iterator[Path]:
    """The source folder of a commit, in a temporary worktree that is gone after the block.

    That holds however the block ends, but for SIGKILL. Raises SteptimeError where git cannot make
    one.
    """
    with tempfile.TemporaryDirectory(prefix="steptime-", ignore_cleanup_errors=True) as temporary:
        place = Path(temporary) / "tree"
        try:
            made = _git(tree.root, "worktree", "add", "--detach", str(place), commit)
            if made is None:
                raise SteptimeError(
                    f"git cannot make a worktree of {commit[:12]} in {temporary}: see git worktree "
                    "list, and whether there is room"
                )
            yield place / tree.source
        finally:
            _git(tree.root, "worktree", "remove", "--force", str(place))


def take_turns(
    sides: Mapping[str, Path],
    words: Sequence[str],
    pairs: int,
    out: Path,
    tell: Callable[[str], None],
) -> Iterator[dict[str, Path]]:
    """Run ``words`` with the source folder of each side in turn, A B A B, at most ``pairs`` times.

    Yields the folders of each pair of runs, by side, once it is there; whoever has seen enough
    asks for no more. ``tell`` hears of each run before it starts. Raises SteptimeError when one
    fails, with what it said last.
    """
    for pair in range(1, pairs + 1):
        done = {}
        for side, source in sides.items():
            tell(f"{side.upper()} {pair} of {pairs}")
            folder = out / side / f"{pair:0{len(str(pairs))}}"
            folder.parent.mkdir(parents=True, exist_ok=True)
            _run(source, [*words, "--out", str(folder), "--quiet"], f"run {pair} of {side.upper()}")
            done[side] = folder
        yield done


def _run(source: Path, words: Sequence[str], name: str) -> None:
    # Where the steptime of one side must not be found in the folder that the user stands in.
    environ = {**os.environ, "PYTHONPATH": str(source), "PYTHONSAFEPATH": "1"}
    with tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "steptime", *words],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
        try:
            code = process.wait()
        except BaseException:
            _end(process)
            raise
        if code:
            stderr.seek(0)
            last = stderr.read()[-_LAST_WORDS:].decode(errors="replace").strip().splitlines()
            why = last[-1].removeprefix("steptime: ") if last else f"exit code {code}"
            error = UsageError if code == UsageError.exit_code else SteptimeError
            raise error(f"{name} failed: {why}")
    if not (Path(words[words.index("--out") + 1]) / RECORD).exists():
        raise SteptimeError(f"{name} left no {RECORD}: run its command alone to see why")


def _end(process: subprocess.Popen[bytes]) -> None:
    """Stop a run, whose launcher stops its ranks."""
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_S)
        return
    process.kill()
    process.wait()


@contextmanager
def stoppable() -> Iterator[None]:
    """Within the block SIGTERM and SIGHUP unwind the stack as Ctrl-C does, and so clean up."""

    def stop(number: int, _: FrameType | None) -> NoReturn:
        raise SystemExit(128 + number)

    ours = (signal.SIGTERM, signal.SIGHUP)
    heard = [number for number in ours if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, stop) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
