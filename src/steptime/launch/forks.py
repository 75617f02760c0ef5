"""Forks: the launcher's side of the process that is forked for each rank (fork_server.py)."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import steptime

RECORD_VARIABLE = "STEPTIME_RECORD"
"""A process in whose environment it stands begins to record itself as it starts (steptime.pth)."""

_COMMAND = (
    "import sys; ours = sys.argv.pop(); sys.path[:0] = [] if ours in sys.path else [ours]; "
    "from steptime.launch.fork_server import main; main()"
)
_MESSAGE_BYTES = 1 << 12


@dataclass(frozen=True, kw_only=True)
class Fork:
    """What a process to be forked is to have of its own.

    ``files``: descriptors of the launcher that it inherits; ``output``: the one that becomes its
    stdout and stderr, or None where it prints where the launcher prints.
    """

    variables: Mapping[str, str]
    files: Sequence[int]
    output: int | None


@dataclass(frozen=True, kw_only=True)
class News:
    """What has become of the fork of that place: one of the three others is told.

    ``process``: it runs, and this is a pidfd of it (pidfd_open(2)); ``code``: it ended, with a
    negative number where a signal ended it; ``error``: why there is none.
    """

    place: int
    process: int | None = None
    code: int | None = None
    error: str | None = None


class ForkServer:
    """A process that imports what a program needs, and runs it in forks, which it outlives."""

    def __init__(
        self,
        program: Sequence[str],
        imports: Sequence[str],
        forks: Sequence[Fork],
        environ: Mapping[str, str],
    ) -> None:
        """Start it; raises OSError where that cannot be.

        ``program``: what would follow ``python`` on a command line: -c CODE, -m MODULE … or
        SCRIPT …; ``imports``: modules that it needs.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        outputs = [fork.output for fork in forks if fork.output is not None]
        files = sorted({*outputs, *(file for fork in forks for file in fork.files)})
        # A recording is of the forks, each by itself.
        kept = {name: value for name, value in environ.items() if name != RECORD_VARIABLE}
        job = {
            "program": program,
            "imports": imports,
            "variables": dict(environ.items() - kept.items()),
            "files": files,
            "forks": [asdict(fork) for fork in forks],
        }
        words = [str(theirs.fileno()), str(Path(steptime.__file__).parents[1])]
        try:
            with os.fdopen(os.memfd_create("steptime-job"), "w+") as told:
                json.dump(job, told)
                told.seek(0)
                self.process = subprocess.Popen(
                    [sys.executable, "-P", "-c", _COMMAND, *words],
                    env=kept,
                    stdin=told,
                    pass_fds=[theirs.fileno(), *files],
                )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        self.channel = ours
        self.forked = False
        """Whether it is known to have begun to fork."""

    def news(self) -> Iterator[News | None]:
        """What it has told since it was last asked, with None once it has ended."""
        while True:
            try:
                message, files, *_ = socket.recv_fds(self.channel, _MESSAGE_BYTES, 1)
            except BlockingIOError:
                return
            except ConnectionResetError:
                message, files = b"", []
            if not message:
                yield None
                return
            self.forked = True
            yield News(**json.loads(message), process=files[0] if files else None)

    def close(self) -> int:
        """Wait for its end, which its channel has told, and return its exit code."""
        self.channel.close()
        return self.process.wait()
