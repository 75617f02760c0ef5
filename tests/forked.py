"""The command with its ranks, forked from one process that has imported torch already.

A command that starts ranks takes a second and a half for each of them to import torch, which is
more than most tests of what it says take besides. Here nothing but the start differs: the command
is a process of its own, starts its ranks as it always does, and each of them runs the command line
from its beginning. What a test proves of starting, of signals or of Python's own variables needs
``cli.command.run``.
"""

import asyncio
import atexit
import gc
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import NoReturn

from cli.command import HANG_S, NOT_INHERITED, Ended, within
from ranks import FORKED
from steptime.cli import main
from steptime.launch import process

THIS = [sys.executable, "-m", "steptime"]


def forked(
    *words: str, folder: Path, environ: Mapping[str, str] | None = None, led: str = ""
) -> Ended:
    """Run the command to its end in ``folder``; it must leave no process behind.

    ``led``: Python that a script of the user's would run before it calls the command line.
    """
    kept = {name: value for name, value in os.environ.items() if name not in NOT_INHERITED}
    start = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        files = [f"/proc/{os.getpid()}/fd/{file.fileno()}" for file in (out, err)]
        given = words, folder, kept | dict(environ or {}), files, led
        command = FORKED.Process(target=_command, args=given)
        command.start()
        command.join(HANG_S)
        assert command.exitcode is not None, f"{words} does not end"
        within(HANG_S, lambda: not _session(command.pid))
        said = [file.seek(0) or file.read().decode() for file in (out, err)]
    return Ended(command.exitcode, said[0], said[1], time.monotonic() - start)


class ForkedRank:
    """To ``start_rank`` what subprocess.Popen is: a fork of this process in place of a new one."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        stdin: int,
        stdout: int | None,
        stderr: int | None,  # noqa: ARG002 - goes where stdout goes, as start_rank has it
        pass_fds: Collection[int],
        bufsize: int,
    ) -> None:
        assert [*command[:3]] == THIS
        assert stdin == subprocess.DEVNULL
        reader, writer = os.pipe() if stdout else (None, None)
        self.returncode: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            _run(lambda: _be_rank(command[3:], env, writer, pass_fds))
        if writer is not None:
            os.close(writer)
        self.stdout = None if reader is None else os.fdopen(reader, "rb", bufsize)

    def wait(self) -> int:
        """The exit code, or minus the number of the signal that ended it."""
        if self.returncode is None:
            self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal to a rank that has not been waited for."""
        if self.returncode is None:
            os.kill(self.pid, number)


def _command(
    words: Sequence[str],
    folder: Path,
    environ: Mapping[str, str],
    files: Sequence[str],
    led: str,
) -> NoReturn:
    gc.freeze()  # what was imported is nothing that a rank would have to look through
    os.setsid()  # by which its processes are known
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, path in enumerate(files, start=1):
        file = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    exec(led, {})  # noqa: S102
    process.subprocess = SimpleNamespace(  # type: ignore[assignment,attr-defined]
        Popen=ForkedRank,
        DEVNULL=subprocess.DEVNULL,
        PIPE=subprocess.PIPE,
        STDOUT=subprocess.STDOUT,
    )
    _run(lambda: _be(words, environ))


def _be_rank(
    words: Sequence[str], environ: Mapping[str, str], output: int | None, inherited: Collection[int]
) -> int:
    """Drop all that a new process would not have of the launcher, and be the rank."""
    asyncio.events._set_running_loop(None)
    signal.set_wakeup_fd(-1)
    for number in process.stops():
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if output is not None:
        os.dup2(output, 1)
        os.dup2(output, 2)
    for number in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if number > 2 and number not in inherited:
            with suppress(OSError):
                os.close(number)
    return _be(words, environ)


def _be(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Be ``steptime WORDS`` in this process."""
    os.environ.clear()
    os.environ.update(environ)
    sys.argv = ["steptime", *words]
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, encoding="utf-8", closefd=False)
    return main()


def _run(program: Callable[[], int]) -> NoReturn:
    """End this process as Python ends with what the program returns."""
    code = 1
    try:
        code = program()
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):
                stream.flush()
        os._exit(code)


def _session(leader: int | None) -> list[int]:
    """The living processes of a session."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state not in "ZX":
                found.append(int(path.parent.name))
    return found
