"""A baton among jobs of one host, all started at once, of which one works at a time."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

BATON = "STEPTIME_BATON"
"""The variable of the environment that names the folder of the batons."""


class Baton:
    """What a rank waits for before its job's turn, and its rank 0 passes on behind it.

    ``folder``: that of ``batons``. ``turns``: the jobs in the order of their turns, the same for
    all of them. The baton is read from a FIFO of each rank, so whoever waits computes nothing.
    """

    def __init__(self, folder: Path, turns: Sequence[str], job: str, rank: int) -> None:
        self._folder = folder
        self._passes = rank == 0
        self._own = os.open(folder / f"{job}.{rank}", os.O_RDWR)
        following = [*turns[1:], ""]
        self._next = [after for at, after in zip(turns, following, strict=True) if at == job]

    def __enter__(self) -> None:
        """Wait for the turn of this rank's job."""
        os.read(self._own, 1)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        """Let the next job work. All ranks of this one must have done their work."""
        after = self._next.pop(0)
        if self._passes and after and error is None:
            hand(self._folder, after)


def hand(folder: Path, job: str) -> None:
    """Give the baton to all ranks of a job."""
    for fifo in folder.glob(f"{job}.*"):
        fifo.write_bytes(b"1")


@contextmanager
def batons(folder: Path, ranks: Mapping[str, int], first: str) -> Iterator[None]:
    """Within the block the jobs pass a baton, from ``first`` on; ``ranks``: how many each has."""
    held = []
    try:
        for job, count in ranks.items():
            for rank in range(count):
                os.mkfifo(folder / f"{job}.{rank}", 0o600)
                # What is written to a FIFO that nobody has open is lost.
                held.append(os.open(folder / f"{job}.{rank}", os.O_RDWR))
        hand(folder, first)
        yield
    finally:
        for descriptor in held:
            os.close(descriptor)
