"""The fork server: imports once what all ranks of a world import, and is forked for each of them.

To import torch takes more than a second of a core and a hundred megabytes. Where ranks are more
than cores each would wait for the imports of others; a fork has them at once, and their memory too.
Android starts its apps from such a process, the zygote, and Python's multiprocessing has one for
functions. This one is for programs: a rank has its own arguments, variables and output before its
first line, and ends as Python ends.

The launcher's side is in forks.py.
"""

import fcntl
import gc
import json
import os
import runpy
import select
import selectors
import signal
import socket
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from types import ModuleType

from steptime.launch.forks import RECORD_VARIABLE, Fork

_LEFT_TO_LAUNCHER = (signal.SIGTERM, signal.SIGHUP)
"""Signals that a terminal or a scheduler may send to all processes of a job at once."""


def main() -> None:
    """Be the fork server of the job that stdin tells, or a rank of it.

    Its channel to the launcher is the descriptor in sys.argv.
    """
    job = json.load(sys.stdin)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    with socket.socket(fileno=int(sys.argv[1])) as channel:
        with _ending_with_launcher(channel):
            for name in job["imports"]:
                with suppress(ImportError):  # a rank that needs it will say so
                    import_module(name)
        gc.collect()
        gc.freeze()  # a rank that collects then leaves alone, and shares, what was there before it
        fork, children = _fork_all(channel, [Fork(**one) for one in job["forks"]])
        if fork is None:
            _close(job["files"])
            _watch(channel, children)
            os._exit(0)
    os.environ.update(job["variables"])
    sys.argv = arguments_of(job["program"])
    _become(fork, job["files"])
    run_program(job["program"])


@contextmanager
def _ending_with_launcher(channel: socket.socket) -> Iterator[None]:
    """Have the kernel end this process when its launcher ends, inside the block.

    It sends SIGIO when the channel, on which nothing comes, is closed at its other end. That takes
    no thread, which must not be there when this process is forked, and no interpreter that has time
    to look: a file system that hangs may hold the imports up.
    """
    flags = fcntl.fcntl(channel, fcntl.F_GETFL)
    fcntl.fcntl(channel, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(channel, fcntl.F_SETFL, flags | os.O_ASYNC)
    ends = select.poll()
    ends.register(channel, select.POLLIN)
    if ends.poll(0):
        sys.exit(1)  # it had ended before
    yield
    fcntl.fcntl(channel, fcntl.F_SETFL, flags)


def _fork_all(
    channel: socket.socket, forks: Sequence[Fork]
) -> tuple[Fork | None, dict[int, tuple[int, int]]]:
    """Fork once for each: returns in each what it is, and here the children by their pidfds.

    Of each child there is its process id and its place among the ranks.
    """
    children: dict[int, tuple[int, int]] = {}
    before = {number: signal.signal(number, signal.SIG_IGN) for number in _LEFT_TO_LAUNCHER}
    for place, fork in enumerate(forks):
        try:
            with warnings.catch_warnings():
                # Python warns of threads, which a fork has not. Here there are none but those of
                # OpenBLAS, which ends them before a fork.
                warnings.simplefilter("ignore", DeprecationWarning)
                child = os.fork()
        except OSError as error:
            _tell(channel, place, error=str(error))
            continue
        if child == 0:
            for number, handler in before.items():
                signal.signal(number, handler)
            _close(children)
            return fork, {}
        process = os.pidfd_open(child)
        children[process] = child, place
        _tell(channel, place, files=[process])
    return None, children


def _close(files: Iterable[int]) -> None:
    for file in files:
        os.close(file)


def _watch(channel: socket.socket, children: dict[int, tuple[int, int]]) -> None:
    """Tell how each child ends, by its pidfd; where the launcher ends they all do."""
    with selectors.DefaultSelector() as selector:
        for file in (channel.fileno(), *children):
            selector.register(file, selectors.EVENT_READ)
        while children:
            for key, _ in selector.select():
                if key.fd == channel.fileno():
                    for child, _ in children.values():
                        os.kill(child, signal.SIGKILL)
                    return
                selector.unregister(key.fd)
                child, place = children.pop(key.fd)
                _, status = os.waitpid(child, 0)
                _tell(channel, place, code=os.waitstatus_to_exitcode(status))


def _tell(channel: socket.socket, place: int, files: Sequence[int] = (), **more: int | str) -> None:
    with suppress(BrokenPipeError):  # the launcher has ended
        socket.send_fds(channel, [json.dumps({"place": place, **more}).encode()], files)


def _become(fork: Fork, files: Sequence[int]) -> None:
    """Have the variables, the output and of all files those of a rank, and no other's."""
    os.environ.update(fork.variables)
    if fork.output is not None:
        _print_to(fork.output)
    _close(set(files) - set(fork.files))
    # What top and ps call it. They show the fork server's command and variables.
    Path("/proc/self/comm").write_text(f"rank {os.environ['RANK']}")
    if "numpy.random" in sys.modules:  # Python itself does so with what `random` holds
        sys.modules["numpy.random"].seed()
    if RECORD_VARIABLE in os.environ:  # as steptime.pth has it
        import_module("steptime.record.start").start_from_environment()


def _print_to(output: int) -> None:
    """Have a pipe for stdout and stderr, as if Python had been started with it."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(output, number)
        before: TextIOWrapper = getattr(sys, name)
        # A pipe has no position, where the stream before it may have had one and would go by it.
        binary = os.fdopen(number, "wb", 0 if before.write_through else -1, closefd=False)
        stream = TextIOWrapper(
            binary,
            encoding=before.encoding,
            errors=before.errors,
            line_buffering=number == 2,
            write_through=before.write_through,
        )
        setattr(sys, name, stream)


def arguments_of(program: Sequence[str]) -> list[str]:
    """sys.argv of what would follow ``python`` on a command line."""
    kind, *rest = program
    return {"-m": rest, "-c": [kind, *rest[1:]]}.get(kind, [kind, *rest])


def run_program(program: Sequence[str]) -> None:
    """Run what would follow ``python`` on a command line: -c CODE, -m MODULE … or SCRIPT …."""
    kind, *rest = program
    if kind == "-m":
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return
    # It lives as long as the process, for what is called at its exit; runpy's would not.
    module = sys.modules["__main__"] = ModuleType("__main__")
    if kind == "-c":
        source, name = rest[0].encode(), "<string>"
    else:
        source, name = Path(kind).read_bytes(), kind
        module.__file__ = name
        sys.path.insert(0, str(Path(name).resolve().parent))
    exec(compile(source, name, "exec"), vars(module))  # noqa: S102
