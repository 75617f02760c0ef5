"""Running a program as ranks on this host, which all end when one fails or the user stops them."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

from steptime.launch.job import TORCH, Job
from steptime.launch.process import stops


def run_ranks(
    program: Sequence[str],
    ranks: int,
    threads: int,
    environ: Mapping[str, str] = os.environ,
    *,
    imports: Sequence[str] = TORCH,
    stop_s: float | None = None,
) -> int:
    """Run ``program`` as ``ranks`` processes of ``threads`` threads, under torchrun's contract.

    As ``run_worlds`` does with one world.
    """
    return run_worlds(program, [(ranks, threads)], environ, imports=imports, stop_s=stop_s)


def run_worlds(
    program: Sequence[str],
    worlds: Sequence[tuple[int, int]],
    environ: Mapping[str, str],
    *,
    imports: Sequence[str] = TORCH,
    stop_s: float | None = None,
) -> int:
    """Run ``program`` as several worlds at once, each of so many ranks of so many threads.

    ``program`` and ``imports``: as ``Job.start`` has them.

    Rank 0 of each has this process's stdout and stderr. The output of the others is withheld; its
    end is shown when such a rank fails without a report. All ranks end with the first that fails,
    and with this process, however that ends (``follow_launcher``).

    Returns 0 when all ranks ended with 0, or 128 plus the number of the signal (one of ``stops()``
    to this process) that stopped them. Raises the error that the first failing rank reported
    (``report_error``), or a SteptimeError that says how it died; an error that only reports the
    loss of another rank counts when there is no other. Must be called in the main thread.

    ``stop_s``: how long ranks that keep their work when SIGTERM comes have to do so; what they then
    report is raised. Another signal to this process ends them at once, as every one does without.
    """
    return asyncio.run(_run(program, worlds, environ, imports, stop_s))


async def _run(
    program: Sequence[str],
    worlds: Sequence[tuple[int, int]],
    environ: Mapping[str, str],
    imports: Sequence[str],
    stop_s: float | None,
) -> int:
    job = Job()
    stopped_by: list[int] = []

    def stop(number: int) -> None:
        stopped_by.append(number)
        job.trouble.set()

    for number in stops():
        asyncio.get_running_loop().add_signal_handler(number, stop, number)
    for ranks, threads in worlds:
        job.start(program, ranks, threads, environ, imports=imports)
    await job.trouble.wait()
    if stop_s is not None and stopped_by == [signal.SIGTERM]:
        job.trouble.clear()
        job.send(signal.SIGTERM)
        with suppress(TimeoutError):
            await asyncio.wait_for(job.trouble.wait(), stop_s)
        if job.cause and len(stopped_by) == 1:
            stopped_by.clear()
    await job.end(at_once=bool(stopped_by))
    if stopped_by:
        return 128 + stopped_by[0]
    if job.cause:
        sys.stderr.write(job.cause.last_words)
        raise job.cause.error
    return 0
