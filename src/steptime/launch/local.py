"""Starting ranks on this host, and ending them all when one fails or the user stops them."""

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from steptime.errors import SteptimeError, UsageError
from steptime.launch.process import Rank, start_rank, stops, world_environment

_GRACE_S = 2.0
"""What ranks get to end by themselves after the first failure, and once more after SIGTERM."""


def run_ranks(
    command: Sequence[str], ranks: int, threads: int, environ: Mapping[str, str] = os.environ
) -> int:
    """Run ``command`` as ``ranks`` processes of ``threads`` threads, under torchrun's contract.

    Rank 0 has this process's stdout and stderr. What the others print is kept back; its end is
    shown when such a rank fails without a report. All ranks end with the first that fails, and
    with this process, whatever ends it (``follow_launcher``).

    Returns 0 when all ranks ended with 0, or 128 plus the number of the signal (one of ``stops()``
    to this process) that stopped them. Raises the error that the first failing rank
    reported (``report_error``), or a SteptimeError that says how it died; an error that only says
    that another rank is lost counts when there is no other. Must be called in the main thread.
    """
    return asyncio.run(_run(command, ranks, threads, environ))


async def _run(command: Sequence[str], ranks: int, threads: int, environ: Mapping[str, str]) -> int:
    job = _Job()
    job.start(command, ranks, threads, environ)
    await job.trouble.wait()
    if job.stopped_by is None:
        await job.over_within_grace()
    for number in (signal.SIGTERM, signal.SIGKILL):
        job.send(number)
        await job.over_within_grace()
    if job.stopped_by is not None:
        return 128 + job.stopped_by
    if job.failures:
        cause = min(job.failures, key=lambda failure: failure.lost_contact)
        sys.stderr.write(cause.last_words)
        raise cause.error
    return 0


@dataclass(frozen=True)
class _Failure:
    error: SteptimeError
    lost_contact: bool = False
    last_words: str = ""


class _Job:
    """The ranks that run, and what is known of those that do not."""

    def __init__(self) -> None:
        self.running: list[Rank] = []
        self.failures: list[_Failure] = []
        """In the order in which they became known."""
        self.stopped_by: int | None = None
        self.trouble = asyncio.Event()
        """Set by the first failure, by a signal to stop, and when no rank runs any more."""
        self.over = asyncio.Event()
        self._ending = False
        self._loop = asyncio.get_running_loop()

    def start(
        self, command: Sequence[str], ranks: int, threads: int, environ: Mapping[str, str]
    ) -> None:
        """Start all ranks; that one cannot be started is a failure like any other."""
        self._loop.add_signal_handler(signal.SIGCHLD, self._reap)
        for stop in stops():
            self._loop.add_signal_handler(stop, self._stop, stop)
        # Ctrl-C reaches every process of the terminal's job; ranks leave it to the launcher.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with socket.create_server(("127.0.0.1", 0), backlog=socket.SOMAXCONN) as listener:
                port = listener.getsockname()[1]
                shared = world_environment(environ, ranks, threads, port)
                for number in range(ranks):
                    self._follow(start_rank(command, number, shared, listener))
        except OSError as error:
            self._fail(_Failure(SteptimeError(f"cannot start rank {len(self.running)}: {error}")))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self._reap()

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the ranks that still run; from now on their ends are no failures."""
        self._ending = True
        for rank in self.running:
            rank.process.send_signal(number)

    async def over_within_grace(self) -> None:
        """Wait until no rank runs any more, but no longer than the grace."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.over.wait(), _GRACE_S)

    def _follow(self, rank: Rank) -> None:
        self.running.append(rank)
        self._loop.add_reader(rank.channel, self._hear, rank)
        if rank.process.stdout:
            self._loop.add_reader(rank.process.stdout, self._drain, rank)

    def _hear(self, rank: Rank) -> None:
        message = rank.receive()
        if message:
            report = json.loads(message)
            kind = UsageError if report["exit_code"] == UsageError.exit_code else SteptimeError
            rank.failed = True
            self._fail(_Failure(kind(report["error"]), lost_contact=report["lost_contact"]))
        elif message is not None:
            self._loop.remove_reader(rank.channel)

    def _drain(self, rank: Rank) -> None:
        if not rank.read_output() and rank.process.stdout:
            self._loop.remove_reader(rank.process.stdout)

    def _reap(self) -> None:
        for rank in [rank for rank in self.running if rank.process.poll() is not None]:
            self.running.remove(rank)
            self._hear(rank)
            self._drain(rank)
            if rank.process.returncode != 0 and not rank.failed:
                self._fail(_death(rank))
            for pipe in rank.pipes:
                self._loop.remove_reader(pipe)
                pipe.close()
        if not self.running:
            self.trouble.set()
            self.over.set()

    def _fail(self, failure: _Failure) -> None:
        if not self._ending:
            self.failures.append(failure)
            self.trouble.set()

    def _stop(self, number: int) -> None:
        self.stopped_by = number
        self.trouble.set()


def _death(rank: Rank) -> _Failure:
    """How a rank ended that said nothing itself."""
    code = rank.process.returncode
    if code == -signal.SIGKILL:
        hint = ": the kernel does so when memory runs out"
        return _Failure(SteptimeError(f"rank {rank.number} was killed by SIGKILL{hint}"))
    how = f"ended with exit code {code}"
    if code < 0:
        how = f"was killed by {signal.Signals(-code).name}"
    return _Failure(SteptimeError(f"rank {rank.number} {how}"), last_words=rank.last_words())
