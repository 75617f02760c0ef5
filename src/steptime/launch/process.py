"""Rank: one rank as a process of this host: its environment, its output, its report."""

import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO

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
    """A started rank, with the launcher's ends of its two pipes."""

    number: int
    index: int
    """Its place among all ranks of the job, which may be of several worlds."""

    process: subprocess.Popen[bytes]
    channel: socket.socket
    """Carries the rank's report; when it closes the rank knows that the launcher is gone."""

    end: int
    """A file descriptor that is readable once the process has ended (pidfd_open(2))."""

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
        """New output from the rank's pipe; None where there is none yet, empty when it is closed.

        A rank may have no such pipe: then it prints where the launcher prints.
        """
        if self.process.stdout is None:
            return None
        try:
            output = os.read(self.process.stdout.fileno(), _PIPE_BYTES)
        except BlockingIOError:
            return None
        self.tail = (self.tail + output)[-_TAIL_BYTES:]
        return output

    def last_words(self) -> str:
        """The last lines of the rank's output from its pipe, each marked with its number."""
        lines = self.tail.decode(errors="replace").splitlines()[-_TAIL_LINES:]
        return "".join(f"rank {self.number}: {line}\n" for line in lines)

    @property
    def pipes(self) -> list[socket.socket | IO[bytes]]:
        """The launcher's ends."""
        return [self.channel, *filter(None, [self.process.stdout])]

    def close(self) -> None:
        """Close the launcher's ends of a rank that has ended."""
        os.close(self.end)
        for pipe in self.pipes:
            pipe.close()


def start_rank(
    command: Sequence[str],
    number: int,
    index: int,
    environ: Mapping[str, str],
    listener: socket.socket,
    files: Mapping[str, int],
    *,
    piped: bool,
) -> Rank:
    """Start ``command`` as rank ``number`` in the world of ``environ``; rank 0 gets ``listener``.

    ``index``: its place among all ranks of the job.
    ``files``: more descriptors that it inherits, by the variables that name them. ``piped``: its
    output goes to the launcher. Raises OSError when it cannot be started.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    variables = {"RANK": number, "LOCAL_RANK": number, LAUNCHER_VARIABLE: theirs.fileno()}
    variables |= files
    inherited = [theirs.fileno(), *files.values()]
    if number == 0:
        variables[LISTENER_VARIABLE] = listener.fileno()
        inherited.append(listener.fileno())
    try:
        process = subprocess.Popen(
            command,
            env={**environ, **{name: str(value) for name, value in variables.items()}},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if piped else None,
            stderr=subprocess.STDOUT if piped else None,
            pass_fds=inherited,
            bufsize=0,
        )
    except OSError:
        ours.close()
        raise
    finally:
        theirs.close()
    if process.stdout:
        os.set_blocking(process.stdout.fileno(), False)
    end = os.pidfd_open(process.pid)
    return Rank(number=number, index=index, process=process, channel=ours, end=end)


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
