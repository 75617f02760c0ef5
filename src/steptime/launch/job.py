"""Job: the ranks on this host, started, watched, and ended together."""

import asyncio
import json
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from steptime.errors import SteptimeError, error_of
from steptime.launch.process import Rank, start_rank, world_environment

_GRACE_S = 2.0
"""Time for ranks to end by themselves after the first failure, and once more after SIGTERM."""


@dataclass(frozen=True)
class Failure:
    """Why a rank failed; ``rank`` is None where it could not even be started."""

    rank: int | None
    error: SteptimeError
    lost_contact: bool = False
    """Whether it only reports that another rank is lost."""

    last_words: str = ""
    index: int | None = None
    """Its place among all ranks of the job, which may be of several worlds."""


class Job:
    """The ranks that still run, and the failures of those that ended.

    Belongs to the running event loop of any thread. ``hears`` gets every message of a rank that is
    no error report, ``prints`` the ranks' output, each with the index of its rank. Without
    ``prints`` rank 0 prints where this process does, and the last lines of the others are kept.
    """

    def __init__(
        self,
        hears: Callable[[Rank, Mapping[str, object]], None] | None = None,
        prints: Callable[[int, bytes], None] | None = None,
    ) -> None:
        self.running: list[Rank] = []
        self.failures: list[Failure] = []
        """In the order in which they became known."""
        self.trouble = asyncio.Event()
        """Set by the first failure, by whoever stops the job, and when no rank runs any more."""
        self.over = asyncio.Event()
        self._started = 0
        self._ending = False
        self._hears = hears
        self._prints = prints
        self._loop = asyncio.get_running_loop()

    @property
    def cause(self) -> Failure | None:
        """The first failure that is not the consequence of another rank's."""
        return min(self.failures, key=lambda failure: failure.lost_contact, default=None)

    def start(
        self,
        command: Sequence[str],
        ranks: int,
        threads: int,
        environ: Mapping[str, str],
        files: Callable[[int], Mapping[str, int]] = lambda _: {},
    ) -> None:
        """Start all ranks; a rank that cannot be started counts as a failure of it.

        ``files``: open files that the rank of an index inherits, by the variable that holds the
        descriptor.
        """
        # Ctrl-C reaches every process of the terminal's job; ranks leave it to the launcher.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with socket.create_server(("127.0.0.1", 0), backlog=socket.SOMAXCONN) as listener:
                port = listener.getsockname()[1]
                shared = world_environment(environ, ranks, threads, port)
                piped = self._prints is not None
                for number in range(ranks):
                    index = self._started
                    rank = start_rank(
                        *(command, number, index, shared, listener, files(index)),
                        piped=piped or number > 0,
                    )
                    self._started += 1
                    self._follow(rank)
        except OSError as error:
            number = len(self.running)
            self.fail(Failure(None, SteptimeError(f"cannot start rank {number}: {error}")))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the ranks that still run."""
        for rank in self.running:
            rank.process.send_signal(number)

    async def end(self, *, at_once: bool) -> None:
        """End all ranks; unless ``at_once`` they first get the time to do so by themselves."""
        if not at_once:
            await self._over_within_grace()
        for number in (signal.SIGTERM, signal.SIGKILL):
            self._ending = True
            self.send(number)
            await self._over_within_grace()

    def fail(self, failure: Failure) -> None:
        """Take note of a failure, unless the job is being ended."""
        if not self._ending:
            self.failures.append(failure)
            self.trouble.set()

    def release(self) -> None:
        """Tell all ranks that every one has returned; a rank's end is no failure from now on."""
        self._ending = True
        for rank in self.running:
            with suppress(OSError):
                rank.channel.send(b"1")

    async def _over_within_grace(self) -> None:
        """Wait until no rank runs any more, but no longer than the grace."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.over.wait(), _GRACE_S)

    def _follow(self, rank: Rank) -> None:
        self.running.append(rank)
        self._loop.add_reader(rank.end, self._reap, rank)
        self._loop.add_reader(rank.channel, self._hear, rank)
        if rank.process.stdout:
            self._loop.add_reader(rank.process.stdout, self._drain, rank)

    def _hear(self, rank: Rank) -> None:
        while message := rank.receive():
            report = json.loads(message)
            if "error" in report:
                rank.failed = True
                error = error_of(report["error"], report["exit_code"])
                lost = report["lost_contact"]
                self.fail(Failure(rank.number, error, lost, index=rank.index))
            elif self._hears:
                self._hears(rank, report)
        if message is not None:
            self._loop.remove_reader(rank.channel)

    def _drain(self, rank: Rank) -> None:
        while output := rank.read_output():
            if self._prints:
                self._prints(rank.index, output)
        if output is not None and rank.process.stdout:
            self._loop.remove_reader(rank.process.stdout)

    def _reap(self, rank: Rank) -> None:
        code = rank.process.wait()
        self.running.remove(rank)
        self._hear(rank)
        self._drain(rank)
        if not rank.failed and (code != 0 or (self._hears and not rank.returned)):
            self.fail(_death(rank))
        for file in (rank.end, *rank.pipes):
            self._loop.remove_reader(file)
        rank.close()
        if not self.running:
            self.trouble.set()
            self.over.set()


def _death(rank: Rank) -> Failure:
    """How a rank ended that reported nothing itself."""
    code = rank.process.returncode
    if code == -signal.SIGKILL:
        hint = ": the kernel does so when memory runs out"
        error = SteptimeError(f"rank {rank.number} was killed by SIGKILL{hint}")
        return Failure(rank.number, error, index=rank.index)
    how = f"ended with exit code {code}{' before it had returned' * (code == 0)}"
    if code < 0:
        how = f"was killed by {signal.Signals(-code).name}"
    error = SteptimeError(f"rank {rank.number} {how}")
    return Failure(rank.number, error, last_words=rank.last_words(), index=rank.index)
