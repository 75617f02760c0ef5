"""Calling a function on ranks of this host, from any thread, also inside a running event loop.

The processes run a program that reads the function from an unnamed file and writes its
result to another, so nothing is left behind however this process ends.
"""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from steptime.errors import SteptimeError
from steptime.launch.job import TORCH, Failure, Job
from steptime.launch.process import Rank
from steptime.words import listed

FUNCTION_VARIABLE = "STEPTIME_FUNCTION"
"""Set for each rank: the descriptor of the file with the pickled function."""

RESULT_VARIABLE = "STEPTIME_RESULT"
"""Set for each rank: the descriptor of the file for the pickled result."""

STACK_VARIABLE = "STEPTIME_STACK"
"""Set for each rank: the descriptor of the file to which SIGUSR1 writes its stack."""

BEGAN, RETURNED = {"began": True}, {"returned": True}
"""The messages of a rank to the launcher before it calls the function and after."""

_START_S = 300.0
"""Limit for all ranks to import what they need and to join; it is there for hangs, not for
speed."""

_STACK_S = 0.5


class LateError(SteptimeError):
    """Some ranks did not return within the time limit."""


@dataclass(frozen=True)
class Outcome:
    """The results of the function by rank, the failure if there was one, and stacks of late ranks.

    Ranks of several worlds are numbered through, world after world. ``stacks``: of ranks that had
    not returned in time, as faulthandler writes them.
    """

    results: tuple[bytes, ...]
    failure: Failure | None
    stacks: Mapping[int, str]


class _Call:
    """A job that runs in a thread of its own, seen from the thread that waits for it."""

    def __init__(self, ranks: int, timeout_s: float) -> None:
        self.printed: SimpleQueue[tuple[int, bytes] | None] = SimpleQueue()
        """Output of the ranks, with None at its end."""
        self.failure: Failure | None = None
        self.late: set[int] = set()
        """Ranks that had not returned in time, and have written their stacks."""
        self._ranks, self._timeout_s = ranks, timeout_s
        self._began: set[int] = set()
        self._returned: set[int] = set()
        self._stopped = threading.Event()
        self._wake: Callable[[], object] = lambda: None

    def stop(self) -> None:
        """End all ranks; called by the thread that waits."""
        self._stopped.set()
        with suppress(RuntimeError):  # the loop has ended
            self._wake()

    async def watch(self, start: Callable[[Job], None]) -> None:
        """Start the ranks and see them to their end; for the thread of the job."""
        job = Job(hears=self._heard, prints=lambda *printed: self.printed.put(printed))
        loop = asyncio.get_running_loop()
        self._wake = lambda: loop.call_soon_threadsafe(job.trouble.set)
        self._progress = asyncio.Event()
        if not self._stopped.is_set():
            start(job)
            everyone = asyncio.create_task(self._until_all(job))
            await job.trouble.wait()
            everyone.cancel()
        if job.cause and isinstance(job.cause.error, LateError):
            self.late = set(range(self._ranks)) - self._returned
            job.send(signal.SIGUSR1)
            await asyncio.sleep(_STACK_S)
            self._stopped.set()
        await job.end(at_once=self._stopped.is_set())
        self.failure = job.cause

    def _heard(self, rank: Rank, message: Mapping[str, object]) -> None:
        if message == RETURNED:
            rank.returned = True
            self._returned.add(rank.index)
        self._began.add(rank.index)
        self._progress.set()

    async def _until_all(self, job: Job) -> None:
        """Release the ranks when all have returned, or fail the job when they do not in time."""
        for those, limit_s in ((self._began, _START_S), (self._returned, self._timeout_s)):
            try:
                async with asyncio.timeout(limit_s):
                    while len(those) < self._ranks:
                        await self._progress.wait()
                        self._progress.clear()
            except TimeoutError:
                job.fail(Failure(None, LateError(self._late(those, limit_s))))
                return
        job.release()

    def _late(self, those: set[int], limit_s: float) -> str:
        done = "returned" if those is self._returned else "joined"
        missing = ranks_named(set(range(self._ranks)) - those)
        others = f", and {ranks_named(those)} had" if those else ""
        hint = ": a collective waits until every rank calls it" if those else ""
        return f"after {limit_s:g} s {missing} had not {done}{others}{hint}"


def call_on_ranks(
    program: Sequence[str],
    function: bytes,
    worlds: Sequence[tuple[int, int]],
    *,
    timeout_s: float,
    prints: Callable[[int, bytes], None],
    environ: Mapping[str, str] = os.environ,
    imports: Sequence[str] = TORCH,
) -> Outcome:
    """Run ``program`` as worlds at once, each of so many ranks of so many threads.

    ``program`` and ``imports``: as ``Job.start`` has them. Each rank calls ``function`` once. What
    they print is given to ``prints`` in the calling thread, with the number of the rank, of several
    worlds numbered through. All ranks end with the first that fails, with this process, when not
    all have returned ``timeout_s`` seconds after all began, and when an exception such as
    KeyboardInterrupt ends the wait in this thread; none runs any more when this returns or raises.
    """
    ranks = sum(count for count, _ in worlds)
    call = _Call(ranks, timeout_s)
    with _unnamed_files(ranks) as (given, results, stacks):
        file_of(given).write_bytes(function)

        def files(rank: int) -> dict[str, int]:
            return {
                FUNCTION_VARIABLE: given,
                RESULT_VARIABLE: results[rank],
                STACK_VARIABLE: stacks[rank],
            }

        def start(job: Job) -> None:
            for count, threads in worlds:
                job.start(program, count, threads, environ, files, imports=imports)

        def run() -> None:
            try:
                asyncio.run(call.watch(start))
            finally:
                call.printed.put(None)

        thread = threading.Thread(target=run, name="steptime ranks")
        thread.start()
        try:
            for number, output in iter(call.printed.get, None):
                prints(number, output)
        except BaseException:
            call.stop()
            raise
        finally:
            thread.join()
        where = {rank: file_of(stacks[rank]).read_text() for rank in sorted(call.late)}
        return Outcome(tuple(file_of(one).read_bytes() for one in results), call.failure, where)


def file_of(descriptor: int) -> Path:
    """A path to an open unnamed file, from which each process can read it from its beginning."""
    return Path(f"/proc/self/fd/{descriptor}")


def ranks_named(ranks: set[int]) -> str:
    """Some ranks in words: ``rank 2``, or ``ranks 0, 1 and 3``."""
    return f"rank{'s' * (len(ranks) > 1)} {listed([*map(str, sorted(ranks))])}"


@contextmanager
def _unnamed_files(ranks: int) -> Iterator[tuple[int, list[int], list[int]]]:
    """Unnamed files: one for the function, and one for each rank's result and each rank's stack."""
    with ExitStack() as stack:

        def made(name: str) -> int:
            file = os.memfd_create(f"steptime-{name}")
            stack.callback(os.close, file)
            return file

        yield (
            made("function"),
            [made("result") for _ in range(ranks)],
            [made("stack") for _ in range(ranks)],
        )
