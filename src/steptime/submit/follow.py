"""Following a job: its place in the queue, what it prints as it appears, and its end."""

import codecs
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from steptime.slurm import SilentError, Status, look
from steptime.submit.words import EXPECTED, standing

_RETURNING = ("PREEMPTED", "NODE_FAIL", "BOOT_FAIL")
"""Ends after which Slurm may put a job into the queue again, so they are looked at twice."""

_TAIL_S = 0.5
_FIRST_LOOK_S, _LAST_LOOK_S = 1.0, 15.0
"""How long between two looks at a job: its controller has others to serve."""

_SILENCE_S = 900.0
"""How long the controller may be silent, as while it is started again."""

_LATE_S = 5.0
"""How long the end of what a job printed may take to be seen from another host."""

_PIECE = 1 << 16


def follow(
    job: int,
    tell: Callable[[str], None],
    show: Callable[[str], None],
    *,
    path: Path | None = None,
    of_job: Callable[[int], Status] = look,
) -> Status:
    """See a job to its end; ``tell`` takes sentences about it, ``show`` what it prints.

    ``path``: the file of what it prints, where that is known; default: what Slurm calls so.
    Raises SteptimeError where Slurm no longer knows it, is silent from the first, or for very long.
    """
    told, pause, answered = "", _FIRST_LOOK_S, float("-inf")
    output = Output(path) if path else None
    runs, last = False, None
    while True:
        try:
            status = of_job(job)
        except SilentError as error:
            if time.monotonic() - answered > _SILENCE_S:
                raise
            sentence = f"{error}; still asking"
        else:
            answered = time.monotonic()
            sentence, runs = standing(job, status), status.state == "RUNNING"
            output = output or (Output(status.output) if status.output else None)
            if status.over and (status.state not in _RETURNING or status == last):
                break
            last = status
        what = sentence.partition(EXPECTED)[0]  # when it is to start changes all the time
        if what != told:
            told, pause = what, _FIRST_LOOK_S
            tell(sentence)
        _tail(output, show, pause, until_any=not runs)
        pause = min(1.3 * pause, _LAST_LOOK_S)
    if output is not None:
        _last(output, status, tell, show)
    return status


def _tail(
    output: "Output | None", show: Callable[[str], None], seconds: float, *, until_any: bool
) -> None:
    """Show what is new for so long; or until there is any, from a job that was thought to wait."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        time.sleep(min(left, _TAIL_S))
        new = output.new() if output else ""
        show(new)
        if new and until_any:
            return


def _last(
    output: "Output", status: Status, tell: Callable[[str], None], show: Callable[[str], None]
) -> None:
    """Show the rest, for which a job that ran has a file, soon or never to be seen here."""
    until = time.monotonic() + (_LATE_S if status.nodes else 0.0)
    while not output.path.exists() and time.monotonic() < until:
        time.sleep(_TAIL_S)
    show(output.new())
    if status.nodes and not output.path.exists():
        tell(f"what it printed cannot be seen from here: {output.path} on {status.nodes}")


class Output:
    """The file of what a job prints, read a piece at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def new(self) -> str:
        """What was not there the last time; empty where nobody has made the file yet."""
        found = b""
        with suppress(OSError):
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
            try:
                os.lseek(descriptor, self._read, os.SEEK_SET)
                while piece := os.read(descriptor, _PIECE):
                    found += piece
                    self._read += len(piece)
            finally:
                os.close(descriptor)
        return self._decoder.decode(found)
