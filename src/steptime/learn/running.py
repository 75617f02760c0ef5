"""Running a lesson's command for real: what it prints, and its numbers."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from steptime import files
from steptime.errors import SteptimeError
from steptime.runs import run_folder

_WIDTH = "80"
_MOST_BYTES = 1 << 20


def run_line(line: str, folder: Path, *, captured: bool) -> tuple[str, dict[str, Any]]:
    """Run a line of ``steptime …`` in a folder; what it printed if ``captured``, and its numbers.

    The numbers are the run.json of its ``--out``. A command without ``--out`` computes what it
    prints, and runs once more with ``--json``. ``exit_code`` is added. A word ``@FILE`` stands for
    what that file of the folder holds. Raises SteptimeError where there are no numbers.
    """
    words = [_held(word, folder) for word in shlex.split(line)[1:]]
    if "--out" in words:  # a command that fails must not be judged by the run before it
        (folder / words[words.index("--out") + 1] / run_folder.RECORD).unlink(missing_ok=True)
    shown = _run(words, folder, captured=captured)
    try:
        if "--out" in words:
            numbers = run_folder.read_record(folder / words[words.index("--out") + 1])
        else:
            told = _run([*words, "--json"], folder, captured=True)
            numbers = files.parsed_json(told.stdout or "", dict)
            if numbers.keys() == {"error"}:
                raise ValueError(numbers["error"])
    except (SteptimeError, ValueError):
        raise SteptimeError(
            f"{line} failed with exit code {shown.returncode}: what it says stands above"
        ) from None
    return shown.stdout or "", {**numbers, "exit_code": shown.returncode}


def _held(word: str, folder: Path) -> str:
    """The word, or for ``@FILE`` the one that the file holds: its lines joined, less comments."""
    if not word.startswith("@"):
        return word
    path = folder / word.removeprefix("@")
    with files.reading(path, "file of the exercise"):
        content = files.bounded_bytes(path, "file of the exercise", _MOST_BYTES).decode()
    return "".join("".join(line.partition("#")[0].split()) for line in content.splitlines())


def _run(words: list[str], folder: Path, *, captured: bool) -> subprocess.CompletedProcess[str]:
    """The command as a process of its own: of this Python, with this terminal's stderr."""
    return subprocess.run(
        [sys.executable, "-m", "steptime", *words],
        cwd=folder,
        env={**os.environ, "COLUMNS": os.environ.get("COLUMNS", _WIDTH)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if captured else None,
        text=True,
        check=False,
    )
