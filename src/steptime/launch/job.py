"""Job: the ranks on this host, started, watched, and ended together."""

import asyncio
import json
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from steptime.errors import SteptimeError, error_of
from steptime.launch.forks import Fork, ForkServer
from steptime.launch.process import Rank, make_rank, world_environment

TORCH = ("torch", "torch.distributed", "steptime.world.join")
"""What ranks of torch.distributed import."""

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
        self._asked = 0
        self._servers: list[ForkServer] = []
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
        program: Sequence[str],
        ranks: int,
        threads: int,
        environ: Mapping[str, str],
        files: Callable[[int], Mapping[str, int]] = lambda _: {},
        *,
        imports: Sequence[str],
    ) -> None:
        """Start a world of ranks; a rank that cannot be started counts as a failure of it.

        ``program``: what would follow ``python`` on a command line: -c CODE, -m MODULE … or
        SCRIPT …; ``imports``: modules that it needs, which are imported once for all ranks.
        ``files``: open files that the rank of an index inherits, by the variable that holds the
        descriptor.
        """
        # Ctrl-C reaches every process of the terminal's job; ranks leave it to the launcher.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        world: list[Rank] = []
        forks: list[Fork] = []
        try:
            with (
                socket.create_server(("127.0.0.1", 0), backlog=socket.SOMAXCONN) as listener,
                ExitStack() as given,
            ):
                piped = self._prints is not None
                for number in range(ranks):
                    index = self._asked
                    rank, fork = make_rank(
                        *(number, index, listener, files(index), given), piped=piped or number > 0
                    )
                    self._asked += 1
                    self._follow(rank)
                    world.append(rank)
                    forks.append(fork)
                port = listener.getsockname()[1]
                shared = world_environment(environ, ranks, threads, port)
                server = ForkServer(program, imports, forks, shared)
            self._servers.append(server)
            self._loop.add_reader(server.channel, self._hear_server, server, world)
        except OSError as error:
            for rank in world:
                self._drop(rank)
            self.fail(Failure(None, SteptimeError(f"cannot start ranks: {error}")))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the ranks, or to the process that is to be forked for them."""
        for rank in self.running:
            rank.send(number)
        for server in self._servers:
            if not server.forked:
                server.process.send_signal(number)

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
        if self._servers:
            with suppress(TimeoutError):
                await asyncio.wait_for(self.over.wait(), _GRACE_S)

    def _follow(self, rank: Rank) -> None:
        self.running.append(rank)
        self._loop.add_reader(rank.channel, self._hear, rank)
        if rank.output is not None:
            self._loop.add_reader(rank.output, self._drain, rank)

    def _hear_server(self, server: ForkServer, world: Sequence[Rank]) -> None:
        for news in server.news():
            if news is None:
                self._lose(server, world)
                return
            rank = world[news.place]
            if news.process is not None:
                rank.process = news.process
                if self._ending:
                    rank.send(signal.SIGKILL)
            elif news.code is not None:
                self._reap(rank, news.code)
            else:
                self._drop(rank)
                self.fail(
                    Failure(None, SteptimeError(f"cannot start rank {rank.number}: {news.error}"))
                )

    def _lose(self, server: ForkServer, world: Sequence[Rank]) -> None:
        """Take note of the server's end, and end what it leaves behind if that came too soon."""
        self._loop.remove_reader(server.channel)
        code = server.close()
        self._servers.remove(server)
        left = [rank for rank in world if rank in self.running]
        for rank in left:
            rank.send(signal.SIGKILL)
            rank.wait(_GRACE_S)
            self._drop(rank)
        if left:
            error = SteptimeError(f"the process of which ranks are forks {_how(code)}")
            self.fail(Failure(None, error))
        if not self._servers:
            self.trouble.set()
            self.over.set()

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
        if output is not None and rank.output is not None:
            self._loop.remove_reader(rank.output)

    def _reap(self, rank: Rank, code: int) -> None:
        self._hear(rank)
        self._drain(rank)
        if not rank.failed and (code != 0 or (self._hears and not rank.returned)):
            self.fail(_death(rank, code))
        self._drop(rank)

    def _drop(self, rank: Rank) -> None:
        """Be done with a rank that has ended, or never was."""
        self.running.remove(rank)
        for file in rank.pipes:
            self._loop.remove_reader(file)
        rank.close()


def _death(rank: Rank, code: int) -> Failure:
    """How a rank ended that reported nothing itself."""
    early = " before it had returned" if code == 0 else ""
    error = SteptimeError(f"rank {rank.number} {_how(code)}{early}")
    words = "" if code == -signal.SIGKILL else rank.last_words()
    return Failure(rank.number, error, last_words=words, index=rank.index)


def _how(code: int) -> str:
    """How a process of that exit code ended; it is negative where a signal ended it."""
    if code >= 0:
        return f"ended with exit code {code}"
    hint = ": the kernel does so when memory runs out" if code == -signal.SIGKILL else ""
    return f"was killed by {signal.Signals(-code).name}{hint}"
