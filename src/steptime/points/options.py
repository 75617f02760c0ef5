"""Who works out the points of a sweep, and where they are kept: options of every verb that sweeps.

Free of NumPy and of what starts processes: no help waits for either.
"""

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steptime.errors import UsageError
from steptime.limits import MOST_RANKS_HERE, check_within, whole_number

if TYPE_CHECKING:
    from steptime.points.cache import Cache

SLURM = "slurm:"
"""What --jobs begins with where jobs of a Slurm array do the work."""


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """How a sweep goes through its points."""

    jobs: str = "1"
    """How many points are worked out at a time: 4, by as many processes here, or slurm:64, by a
    Slurm array. Leave it out under `mpirun -n N python -m mpi4py.futures -m steptime`, whose ranks
    take them."""

    cache: Path | None = None
    """Folder that keeps each point as it is done: the same command goes on from there after it was
    ended, and points that are asked for again are not worked out again."""

    def __post_init__(self) -> None:
        check_within("--jobs", self.number, 1, MOST_RANKS_HERE)
        if self.on_slurm and self.cache is None:
            raise UsageError(
                f"--jobs {self.jobs} needs --cache: name a folder that all hosts of Slurm see"
            )

    @property
    def on_slurm(self) -> bool:
        """Whether jobs of a Slurm array do the work."""
        return self.jobs.startswith(SLURM)

    @property
    def number(self) -> int:
        """How many points are worked out at a time."""
        number = whole_number(self.jobs.removeprefix(SLURM))
        if number is None:
            raise UsageError(f"--jobs is {self.jobs!r}: write a number, as 4, or slurm:64")
        return number

    @contextmanager
    def executor(self) -> Iterator[Executor | None]:
        """Who does the work, until the end of the block; None: this process.

        Raises UsageError where that cannot be had here.
        """
        from steptime.points.mpi import is_pool, mpi_ranks

        if is_pool():
            if self.jobs != "1":
                raise UsageError(
                    f"--jobs is {self.jobs}, and the ranks of mpi4py.futures take the points: "
                    "leave it out"
                )
            with mpi_ranks() as ranks:
                yield ranks
        elif self.on_slurm:
            from steptime.points.slurm import slurm_array

            assert self.cache is not None  # noqa: S101 - __post_init__ saw to that
            with slurm_array(self.cache / "slurm", self.number) as array:
                yield array
        elif self.number > 1:
            from steptime.points.local import local_processes

            with local_processes(self.number) as processes:
                yield processes
        else:
            yield None

    def kept(self) -> "Cache | None":
        """Where points are kept, or None; raises UsageError where that cannot be a folder."""
        from steptime.points.cache import Cache

        return None if self.cache is None else Cache(self.cache)
