"""What the command says of itself, and in which colours."""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from command import here, run

from steptime import __version__
from steptime.cli import build_app

IMPORTED = """
import sys
from steptime.cli import main
heavy = {"torch", "plotly", "jinja2"}
sys.argv = ["steptime", *sys.argv[1:]]
code = main()
print(*sorted(heavy & sys.modules.keys()))
sys.exit(code)
"""
EACH = """
import sys
from steptime.cli import build_app, main
for verb in (name for name in build_app() if not name.startswith("-")):
    sys.argv = ["steptime", verb, "--help"]
    main()
    print("VERB", verb, *sorted({"torch", "plotly", "numpy"} & sys.modules.keys()))
"""
HELP = [["--help"], ["compare", "--help"], ["train", "--help"], ["--version"]]


@pytest.mark.parametrize("words", HELP, ids=" ".join)
def test_help_fits_the_terminal(words: Sequence[str], tmp_path: Path) -> None:
    ended = here(*words, folder=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.strip()
    assert max(len(line) for line in ended.out.splitlines()) <= 80
    assert "\x1b" not in ended.out
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [*HELP, ["compare", "--ranks", "0"]], ids=" ".join)
def test_help_and_bad_usage_do_not_wait_for_torch(words: Sequence[str], tmp_path: Path) -> None:
    command = [sys.executable, "-c", IMPORTED, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert done.returncode == (2 if "--ranks" in words else 0)
    assert (done.stdout.splitlines() or [""])[-1] == ""


def test_the_help_of_no_verb_waits_for_numpy_or_what_is_heavier(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", EACH],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=tmp_path,
        env=os.environ | {"COLUMNS": "80"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    verbs = [name for name in build_app() if not name.startswith("-")]
    assert [line for line in lines if line.startswith("VERB")] == [f"VERB {v}" for v in verbs]
    assert done.stdout.count("Usage: ") == len(verbs)
    assert max(map(len, lines)) <= 80


def test_help_names_the_verbs(tmp_path: Path) -> None:
    ended = run("--help", folder=tmp_path)
    assert re.search(r"compare +Which gradient-sync strategy is fastest here", ended.out)
    assert re.search(r"train +Train GPT-2", ended.out)
    assert run("--version", folder=tmp_path).out == f"{__version__}\n"


def test_a_command_without_a_verb_shows_the_help(tmp_path: Path) -> None:
    ended = run(folder=tmp_path)
    assert ended.code == 0
    assert "compare" in ended.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "environ", "escapes"),
    [([], {}, True), (["--no-color"], {}, False), ([], {"NO_COLOR": "1"}, False)],
    ids=["coloured", "--no-color", "NO_COLOR"],
)
def test_colour_in_a_terminal(
    words: list[str], environ: dict[str, str], escapes: bool, tmp_path: Path
) -> None:
    ours, theirs = pty.openpty()
    environ = {"TERM": "xterm-256color", **environ}
    ended = run("verify", "ring", *words, folder=tmp_path, stdout=theirs, environ=environ)
    os.close(theirs)
    assert (ended.code, ended.err) == (0, "")
    printed = read_all(ours).decode()
    assert "all_gather" in printed
    assert ("\x1b" in printed) == escapes


def read_all(terminal: int) -> bytes:
    """What was printed to a terminal that everyone else has closed."""
    printed = b""
    with suppress(OSError), os.fdopen(terminal, "rb", buffering=0) as file:
        while chunk := file.read(4096):
            printed += chunk
    return printed
