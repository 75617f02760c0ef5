"""Ranks of ``mpirun -n N python -m mpi4py.futures`` that work out points; rank 0 hands them out."""

import sys
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from steptime.errors import UsageError
from steptime.points.local import one_thread

_POOL = "mpi4py.futures"


def is_pool() -> bool:
    """Whether this is rank 0 of a pool, and other ranks wait for work.

    Only ``python -m mpi4py.futures`` has imported that before steptime asks.
    """
    if _POOL not in sys.modules or _POOL not in sys.orig_argv:
        return False
    from mpi4py import MPI

    return bool(MPI.COMM_WORLD.Get_size() > 1)


@contextmanager
def mpi_ranks() -> Iterator[Executor]:
    """All ranks but this one."""
    from mpi4py.futures import MPIPoolExecutor

    with MPIPoolExecutor(initializer=one_thread, main=False) as ranks:
        yield ranks


def refuse_copies(size: int, verb: str) -> None:
    """Raise UsageError where a launcher started ``size`` commands that would all do the same."""
    if size > 1 and not is_pool():
        raise UsageError(
            f"{size} processes would each work out all of it: write mpirun -n {size} python -m "
            f"mpi4py.futures -m steptime {verb}, or --jobs without a launcher"
        )
