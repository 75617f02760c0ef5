"""``steptime.run``: a function of a script or a notebook on live ranks."""

import inspect
import linecache
import os
import pickle
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar

from steptime.api.rank import Call, Raised
from steptime.errors import SteptimeError, UsageError
from steptime.launch.function import LateError, Outcome, call_on_ranks
from steptime.launch.job import TORCH
from steptime.limits import LIMITS, MOST_RANKS_HERE, check_within
from steptime.pickles import packed
from steptime.units import parse_seconds

T = TypeVar("T")
Backend: TypeAlias = Literal["gloo", "nccl", "steptime", "none"]

_BACKENDS = ("gloo", "nccl", "steptime", "none")
_RANK = ("-c", "from steptime.api.rank import main; main()")
_INSIDE = "make or open it inside of the function, which runs in processes of its own"
_MOST_FRAMES = 12


def run(
    function: Callable[[], T],
    *,
    ranks: int = 4,
    backend: Backend = "gloo",
    threads: int = 1,
    timeout: float | str = "5min",
) -> tuple[T, ...]:
    """Call ``function`` on ``ranks`` live ranks of this machine; the results in the order of ranks.

    Each rank is a fresh process of ``threads`` threads that has joined the others through
    torch.distributed by ``backend`` when the function begins: gloo, nccl (a GPU for each rank),
    steptime (shared memory), or none for processes that only know RANK and WORLD_SIZE, without
    torch. The function may be any: of a notebook, of a script without a guard, a closure or a
    lambda. What it uses is copied to every rank, so changes to variables of this process stay
    there; return what you want to have. Tensors that it returns must be on the CPU. What ranks
    print appears here, each line with its rank before it.

    Raises the first exception of a rank, with that rank's traceback as a note; SteptimeError where
    a rank dies, or has not returned ``timeout`` (seconds, or text such as 2min) after all began;
    UsageError where the function or what it returns cannot travel between processes. No rank runs
    any more then, nor after a KeyboardInterrupt.

    >>> import torch
    >>> import torch.distributed as dist
    >>> def sum_of_ranks():
    ...     mine = torch.tensor([dist.get_rank()])
    ...     dist.all_reduce(mine)
    ...     return int(mine)
    >>> st.run(sum_of_ranks, ranks=3)
    (3, 3, 3)
    """
    _check(ranks, threads)
    return run_worlds(function, [(ranks, threads)], backend=backend, timeout=timeout)


def answer_of_ranks(
    function: Callable[[], T | None],
    *,
    ranks: int,
    backend: Backend,
    threads: int,
    timeout: float | str,
) -> T:
    """What rank 0 returns of a function that is called on ranks as ``run`` does."""
    found = run(function, ranks=ranks, backend=backend, threads=threads, timeout=timeout)[0]
    if found is None:
        raise SteptimeError("rank 0 brought no answer home; please report this")
    return found


def started_here(ranks: int, backend: str, threads: int) -> dict[str, Any]:
    """Where a measurement was made, for its record, on ranks that ``run`` started."""
    return {"backend": backend, "ranks": ranks, "threads": threads, "launcher": "steptime"}


def run_worlds(
    function: Callable[[], T],
    worlds: Sequence[tuple[int, int]],
    *,
    backend: Backend,
    timeout: float | str,
    variables: Mapping[str, str] | None = None,
) -> tuple[T, ...]:
    """Call ``function`` on the ranks of several worlds at once; the results, world after world.

    ``worlds``: how many ranks each has, of how many threads; ``variables`` are added to their
    environment. Raises as ``run``.
    """
    timeout_s = parse_seconds(timeout) if isinstance(timeout, str) else float(timeout)
    _check_call(function, backend, timeout_s)
    call = Call(
        function=packed(function, "the function uses", _INSIDE),
        backend=backend,
        timeout_s=timeout_s + 300.0,  # of a collective: the launcher's clock is to be the first
        path=sys.path,
        sources=_sources(function),
    )
    outcome = _outcome(call, worlds, timeout_s, variables or {})
    if outcome.failure is not None:
        _raise(outcome, sum(ranks for ranks, _ in worlds))
    return tuple(pickle.loads(result) for result in outcome.results)  # noqa: S301 - our ranks'


def _outcome(
    call: Call, worlds: Sequence[tuple[int, int]], timeout_s: float, variables: Mapping[str, str]
) -> Outcome:
    """What came of the call on the ranks, which print here meanwhile."""
    printer = _Printer()
    outcome = call_on_ranks(
        *(_RANK, pickle.dumps(call), worlds),
        timeout_s=timeout_s,
        prints=printer.take,
        environ={**os.environ, **variables},
        imports=() if call.backend == "none" else TORCH,
    )
    printer.end()
    return outcome


def _check(ranks: int, threads: int) -> None:
    check_within("ranks", ranks, 1, MOST_RANKS_HERE)
    check_within("threads", threads, *LIMITS["threads"])


def _check_call(function: Callable[..., object], backend: str, timeout_s: float) -> None:
    if backend not in _BACKENDS:
        raise UsageError(f"there is no backend {backend!r}: choose one of {', '.join(_BACKENDS)}")
    if backend != "none" and find_spec("torch") is None:
        raise UsageError("ranks that communicate need PyTorch: pip install 'steptime[train]'")
    if not timeout_s > 0:
        raise UsageError(f"timeout is {timeout_s:g} s: it must be above 0")
    if not callable(function):
        raise UsageError(
            f"{function!r} is no function: give the function itself, without the brackets of a call"
        )
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise UsageError(
            f"the function is called without arguments, and that does not do ({error}): give them "
            "by functools.partial, and ask torch.distributed.get_rank() for the rank"
        ) from None
    except ValueError:  # a function of C that does not tell what it takes
        return


def _sources(function: Callable[..., object]) -> dict[str, list[str]]:
    """The lines of the function's file, where that is no file of a disk."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    name = code.co_filename if code else ""
    return {} if not name or Path(name).exists() else {name: linecache.getlines(name)}


class _Printer:
    """Prints what ranks print, whole lines, each with the number of its rank before it."""

    def __init__(self) -> None:
        self._begun: dict[int, bytes] = {}

    def take(self, rank: int, output: bytes) -> None:
        *lines, self._begun[rank] = (self._begun.get(rank, b"") + output).split(b"\n")
        for line in lines:
            print(f"rank {rank}: {line.decode(errors='replace')}", flush=True)

    def end(self) -> None:
        for rank, rest in self._begun.items():
            if rest:
                self.take(rank, b"\n")


def _raise(outcome: Outcome, ranks: int) -> NoReturn:
    """Raise what the first rank that failed raised, or how it ended."""
    failure = outcome.failure
    assert failure is not None  # noqa: S101 - the caller's
    content = b"" if failure.index is None else outcome.results[failure.index]
    raised = pickle.loads(content) if content else None  # noqa: S301 - our own rank's
    if not isinstance(raised, Raised):
        error: BaseException = failure.error
        if isinstance(error, LateError):
            for rank, stack in outcome.stacks.items():
                error.add_note(f"rank {rank} was here, the last call first:\n{_end_of(stack)}")
        raise error
    error = pickle.loads(raised.error) if raised.error else failure.error  # noqa: S301
    error.add_note(f"raised on rank {failure.rank} of {ranks}:\n{raised.traceback.rstrip()}")
    raise error


def _end_of(stack: str) -> str:
    """The calls of a stack down to the function that the rank was given."""
    lines: Sequence[str] = [line for line in stack.splitlines() if line.startswith("  File")]
    own = [at for at, line in enumerate(lines) if "steptime/api/rank.py" in line]
    return "\n".join(lines[: own[0] if own else None][:_MOST_FRAMES])
