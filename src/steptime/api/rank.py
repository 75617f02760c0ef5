"""What a rank of ``steptime.run`` runs: it joins the others, calls the function, and stays.

It returns only when all ranks have, so that a rank that skips a collective harms nobody: it waits
outside of torch, and the launcher's clock says who is missing.
"""

import faulthandler
import gc
import linecache
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from steptime.errors import SteptimeError
from steptime.launch import end_rank, follow_launcher, report_error, tell_launcher
from steptime.launch.function import (
    BEGAN,
    FUNCTION_VARIABLE,
    RESULT_VARIABLE,
    RETURNED,
    STACK_VARIABLE,
    file_of,
)
from steptime.pickles import packed
from steptime.world import World, detect


@dataclass(frozen=True, kw_only=True)
class Call:
    """A function and what a rank needs before it can read it.

    ``sources``: the lines of files that are on no disk, such as the cells of a notebook, for
    tracebacks.
    """

    function: bytes
    backend: str
    timeout_s: float
    path: list[str]
    sources: Mapping[str, list[str]]


@dataclass(frozen=True)
class Raised:
    """An exception of a rank; as bytes too, where it can travel."""

    words: str
    traceback: str
    error: bytes | None


def main() -> None:
    """Be the rank that the environment says."""
    released = follow_launcher(os.environ)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    world = detect(os.environ)
    assert world is not None  # noqa: S101 - the launcher's contract
    stack = open(_descriptor(STACK_VARIABLE), "w")  # noqa: SIM115 - as long as this process
    faulthandler.register(signal.SIGUSR1, stack, all_threads=False)
    call: Call = pickle.loads(file_of(_descriptor(FUNCTION_VARIABLE)).read_bytes())  # noqa: S301
    sys.path[:] = call.path
    for name, lines in call.sources.items():
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)
    try:
        with _joined(world, call):
            _call(call, world)
            tell_launcher(os.environ, RETURNED)
            released.wait()
            gc.collect()
    except SteptimeError as error:
        _give_up(error)
    except BaseException as error:
        _give_up(SteptimeError(f"rank {world.rank} raised {_words(error)}"), error)


def _call(call: Call, world: World) -> None:
    function: Callable[[], Any] = pickle.loads(call.function)  # noqa: S301 - our own
    tell_launcher(os.environ, BEGAN)
    try:
        result = function()
    except SystemExit as error:
        raise SteptimeError(
            f"rank {world.rank} called sys.exit({error.code!r}): return from the function instead"
        ) from None
    content = packed(
        result,
        f"rank {world.rank} returned",
        "return numbers, lists, arrays or tensors of the CPU",
    )
    file_of(_descriptor(RESULT_VARIABLE)).write_bytes(content)


def _give_up(report: SteptimeError, error: BaseException | None = None) -> None:
    """Leave the exception to the launcher and end this process."""
    cause = error or report
    if error is not None or report.__cause__ is not None:
        trace = "".join(traceback.format_exception(_without_our_frames(cause)))
        raised = Raised(_words(cause), trace, _packed_error(cause))
        file_of(_descriptor(RESULT_VARIABLE)).write_bytes(pickle.dumps(raised))
    report_error(os.environ, report)
    end_rank(report.exit_code)


def _without_our_frames(error: BaseException) -> BaseException:
    """The exception with the traceback from the function on."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return error.with_traceback(trace or error.__traceback__)


def _packed_error(error: BaseException) -> bytes | None:
    """The exception, where it travels and arrives as what it was."""
    try:
        content = packed(error, "", "")
        return content if type(pickle.loads(content)) is type(error) else None  # noqa: S301
    except Exception:
        return None


def _words(error: BaseException) -> str:
    return " ".join("".join(traceback.format_exception_only(error)).split())


@contextmanager
def _joined(world: World, call: Call) -> Iterator[None]:
    """Be a rank of torch.distributed inside the block, unless the backend is none."""
    if call.backend == "none":
        yield
        return
    if call.backend == "steptime":
        import steptime.backend  # noqa: F401
    from steptime.world.join import joined

    with joined(
        world, call.backend, threads=int(os.environ["OMP_NUM_THREADS"]), timeout_s=call.timeout_s
    ):
        yield


def _descriptor(variable: str) -> int:
    return int(os.environ[variable])
