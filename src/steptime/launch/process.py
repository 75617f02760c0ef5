"""Rank: one rank as a process of this host: its environment, its output, its report."""

import os
import select
import signal
import socket
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from steptime.launch.forks import Fork
from steptime.world.environment import LAUNCHER_VARIABLE, LISTENER_VARIABLE

_PIPE_BYTES = 1 << 16
_TAIL_BYTES = 1 << 13
_TAIL_LINES = 20


def stops() -> list[signal.Signals]:
    """The signals that stop a launcher, except those that it was started to ignore.

    nohup(1) has SIGHUP ignored, and the shell of a script SIGINT for what it starts with &.
    """
    ours = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [number for number in ours if signal.getsignal(number) is not signal.SIG_IGN]


@dataclass(eq=False)
class Rank:
    """A rank that has been asked for, with the launcher's ends of what joins them."""

    number: int
    index: int
    """Its place among all ranks of the job, which may be of several worlds."""

    channel: socket.socket
    """Carries the rank's report; when it closes the rank knows that the launcher is gone."""

    output: int | None
    """A descriptor to read from what it prints; None where it prints where the launcher prints."""

    process: int | None = None
    """Its pidfd, once it runs."""

    failed: bool = False
    returned: bool = False
    """Whether the function that it was to call has returned."""

    tail: bytes = b""

    def receive(self) -> bytes | None:
        """The rank's next report; empty when there will be none, None when there is none yet."""
        try:
            return self.channel.recv(_PIPE_BYTES)
        except BlockingIOError:
            return None

    def read_output(self) -> bytes | None:
        """New output from its pipe; None where there is none yet, empty when it is closed."""
        if self.output is None:
            return None
        try:
            output = os.read(self.output, _PIPE_BYTES)
        except BlockingIOError:
            return None
        self.tail = (self.tail + output)[-_TAIL_BYTES:]
        return output

    def last_words(self) -> str:
        """The last lines of the rank's output from its pipe, each marked with its number."""
        lines = self.tail.decode(errors="replace").splitlines()[-_TAIL_LINES:]
        return "".join(f"rank {self.number}: {line}\n" for line in lines)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to it, if it runs."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.process, number)

    def wait(self, seconds: float) -> None:
        """Wait for its end, if it runs, but no longer than that."""
        if self.process is not None:
            ends = select.poll()
            ends.register(self.process, select.POLLIN)
            ends.poll(seconds * 1e3)

    @property
    def pipes(self) -> list[int]:
        """The launcher's ends."""
        return [self.channel.fileno(), *([] if self.output is None else [self.output])]

    def close(self) -> None:
        """Close the launcher's ends of a rank that has ended."""
        self.channel.close()
        for file in (self.output, self.process):
            if file is not None:
                os.close(file)


def make_rank(
    number: int,
    index: int,
    listener: socket.socket,
    files: Mapping[str, int],
    given: ExitStack,
    *,
    piped: bool,
) -> tuple[Rank, Fork]:
    """Rank ``number`` as the launcher sees it, and its process to be; rank 0 gets ``listener``.

    ``index``: its place among all ranks of the job. ``files``: more descriptors that it inherits,
    by the variables that name them. ``given``: closes here, at its end, what only the process is to
    have. ``piped``: its output goes to the launcher. Raises OSError.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    given.enter_context(theirs)
    ours.setblocking(False)
    rank = Rank(number=number, index=index, channel=ours, output=None)
    output = None
    if piped:
        try:
            rank.output, output = os.pipe()
        except OSError:
            ours.close()
            raise
        given.callback(os.close, output)
        os.set_blocking(rank.output, False)
    inherited = {LAUNCHER_VARIABLE: theirs.fileno(), **files}
    if number == 0:
        inherited[LISTENER_VARIABLE] = listener.fileno()
    variables = {"RANK": number, "LOCAL_RANK": number, **inherited}
    fork = Fork(
        variables={name: str(value) for name, value in variables.items()},
        files=[*inherited.values()],
        output=output,
    )
    return rank, fork


def world_environment(
    environ: Mapping[str, str], ranks: int, threads: int, port: int
) -> dict[str, str]:
    """``environ`` with the variables that all ranks of this host share in torchrun's contract.

    TORCHELASTIC_* must go: one of them says that torchrun's agent listens, and then no process
    would.
    """
    kept = {key: text for key, text in environ.items() if not key.startswith("TORCHELASTIC_")}
    return kept | {
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": str(threads),
    }
