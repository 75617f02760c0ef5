"""One rank as a process of this host: its environment, its output, its report."""

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
    """The signals that stop a launcher: none that whoever started it has it ignore.

    nohup(1) does so with SIGHUP, and the shell of a script with SIGINT for what it starts with &.
    """
    ours = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [number for number in ours if signal.getsignal(number) is not signal.SIG_IGN]


@dataclass(eq=False)
class Rank:
    """A rank that was started, with the launcher's ends of its two pipes."""

    number: int
    process: subprocess.Popen[bytes]
    channel: socket.socket
    """Brings the rank's report; that it closes tells the rank that the launcher is gone."""

    failed: bool = False
    tail: bytes = b""

    def receive(self) -> bytes | None:
        """The rank's next report; empty when there will be none, None when there is none yet."""
        try:
            return self.channel.recv(_PIPE_BYTES)
        except BlockingIOError:
            return None

    def read_output(self) -> bool:
        """Empty the pipe that the rank prints to; False when it is closed.

        Rank 0 has no such pipe: it prints where the launcher prints.
        """
        if self.process.stdout is None:
            return False
        try:
            output = os.read(self.process.stdout.fileno(), _PIPE_BYTES)
        except BlockingIOError:
            return True
        self.tail = (self.tail + output)[-_TAIL_BYTES:]
        return bool(output)

    def last_words(self) -> str:
        """The last lines that the rank printed to its pipe, each marked with its number."""
        lines = self.tail.decode(errors="replace").splitlines()[-_TAIL_LINES:]
        return "".join(f"rank {self.number}: {line}\n" for line in lines)

    @property
    def pipes(self) -> list[socket.socket | IO[bytes]]:
        """The launcher's ends."""
        return [self.channel, *filter(None, [self.process.stdout])]


def start_rank(
    command: Sequence[str],
    number: int,
    environ: Mapping[str, str],
    listener: socket.socket,
) -> Rank:
    """Start ``command`` as rank ``number`` in the world of ``environ``; rank 0 gets ``listener``.

    Raises OSError when it cannot be started.
    """
    first = number == 0
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    variables = {"RANK": number, "LOCAL_RANK": number, LAUNCHER_VARIABLE: theirs.fileno()}
    inherited = [theirs.fileno()]
    if first:
        variables[LISTENER_VARIABLE] = listener.fileno()
        inherited.append(listener.fileno())
    try:
        process = subprocess.Popen(
            command,
            env={**environ, **{name: str(value) for name, value in variables.items()}},
            stdin=subprocess.DEVNULL,
            stdout=None if first else subprocess.PIPE,
            stderr=None if first else subprocess.STDOUT,
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
    return Rank(number=number, process=process, channel=ours)


def world_environment(
    environ: Mapping[str, str], ranks: int, threads: int, port: int
) -> dict[str, str]:
    """``environ`` with what all ranks of this host share in torchrun's contract.

    TORCHELASTIC_* must go: one of them says that torchrun's agent listens, and then nobody would.
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
