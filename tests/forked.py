"""Python, forked from a process that has imported torch already, in place of a new one.

Every process that imports torch takes a second and a half for that, which is more than most tests
of what a command or a script says take besides. Here nothing but the start differs: the command is
a process of its own, and wherever it starts Python, as ranks or as torch's own launcher, the new
process is a fork that begins at the beginning, with the arguments, variables and files that it was
given. What a test proves of starting, of imports, of signals or of Python's own variables needs a
real start.
"""

import asyncio
import atexit
import gc
import inspect
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, NoReturn

import torch

from cli.command import HANG_S, NOT_INHERITED, Ended, within
from ranks import FORKED
from steptime.launch.fork_server import arguments_of, run_program
from steptime.record.start import VARIABLE, start_from_environment

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


def forked(
    *words: str, folder: Path, environ: Mapping[str, str] | None = None, led: str = ""
) -> Ended:
    """Run ``steptime WORDS`` to its end in ``folder``; it must leave no process behind.

    ``led``: Python that a script of the user's would run before it calls the command line.
    """
    return forked_python("-m", "steptime", *words, folder=folder, environ=environ, led=led)


def forked_python(
    *words: str, folder: Path, environ: Mapping[str, str] | None = None, led: str = ""
) -> Ended:
    """Run ``python WORDS``, a module or a script with its arguments, as ``forked`` does."""
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


class ForkedPopen(subprocess.Popen[Any]):
    """A Popen that forks this process where it would start another Python.

    What it calls in the new process, which has its files and its session by then, never returns.
    """

    def __init__(self, args: Sequence[str], **options: Any) -> None:
        if args[0] == sys.executable:
            environ = dict(os.environ if options.get("env") is None else options["env"])
            before, inherited = options.get("preexec_fn"), options.get("pass_fds", ())
            words = list(args[1:])

            def be_python() -> NoReturn:
                if before is not None:
                    before()
                _drop_what_is_of_the_parent(inherited)
                _run(lambda: _be(words, environ))

            options["preexec_fn"] = be_python
        super().__init__(args, **options)


def _command(
    words: Sequence[str],
    folder: Path,
    environ: Mapping[str, str],
    files: Sequence[str],
    led: str,
) -> NoReturn:
    from torch.distributed.elastic.multiprocessing.subprocess_handler import subprocess_handler

    multiprocessing.set_start_method(None, force=True)  # that of a new Python
    gc.freeze()  # what was imported is nothing that a rank would have to look through
    os.setsid()  # by which its processes are known
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number, path in enumerate(files, start=1):
        file = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.dup2(file, number)
        os.close(file)
    os.chdir(folder)
    exec(led, {})  # noqa: S102
    subprocess.Popen = subprocess_handler.Popen = ForkedPopen  # type: ignore[misc]
    _run(lambda: _be(words, environ))


def _drop_what_is_of_the_parent(inherited: Collection[int]) -> None:
    """Drop all that a new process would not have of the one that starts it."""
    gc.enable()  # it is not while Popen forks
    asyncio.events._set_running_loop(None)
    signal.set_wakeup_fd(-1)
    resource_tracker._resource_tracker = resource_tracker.ResourceTracker()  # its pipe is closed
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python has it from its start
    for number in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if number > 2 and number not in inherited:
            with suppress(OSError):
                os.close(number)


def _be(words: Sequence[str], environ: Mapping[str, str]) -> None:
    """Be ``python WORDS`` in this process."""
    os.environ.clear()
    os.environ.update(environ)
    encoding = environ.get("PYTHONIOENCODING", "utf-8")
    sys.stdin = os.fdopen(0, encoding=encoding, closefd=False)
    sys.stdout = os.fdopen(1, "w", 1 if words[0] == "-u" else -1, encoding=encoding, closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, encoding="utf-8", closefd=False)
    if environ.get("OMP_NUM_THREADS", "").isdecimal():  # torch has read its own by now
        torch.set_num_threads(int(environ["OMP_NUM_THREADS"]))
    sys.orig_argv = [sys.executable, *words]
    program = words[1:] if words[0] in ("-u", "-P") else words
    if tuple(program[:2]) == TORCHRUN[:2]:
        # It asks for the names of its callers alone, and inspect looks for their source in all that
        # was imported: half of its processor time.
        inspect.stack = _callers
    sys.argv = arguments_of(program)
    sys.path[:0] = filter(None, environ.get("PYTHONPATH", "").split(os.pathsep))
    if program[0] == "-m":
        sys.path.insert(0, str(Path.cwd()))
    # A launcher that recorded itself would hand its recording on to its ranks.
    if VARIABLE in environ and tuple(program[:2]) != TORCHRUN[:2]:
        start_from_environment()
    run_program(program)


def _callers() -> list[inspect.FrameInfo]:
    frames = [frame for frame, _ in traceback.walk_stack(sys._getframe(1))]
    return [
        inspect.FrameInfo(one, one.f_code.co_filename, one.f_lineno, one.f_code.co_name, None, None)
        for one in frames
    ]


def _run(program: Callable[[], None]) -> NoReturn:
    """End this process as Python ends with what the program does."""
    code = 0
    try:
        program()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        code = 1
        sys.excepthook(*sys.exc_info())  # a recording has its own
    finally:
        with suppress(BaseException):
            threading._shutdown()
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
