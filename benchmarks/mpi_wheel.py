"""What the benchmarks beside MPI share: an MPI that a wheel brought, maybe outside this Python."""

from pathlib import Path


def variables_of(name: str, prefix: Path) -> dict[str, str]:
    """What mpi4py must be told to use the MPI called ``name`` whose wheel is in ``prefix``."""
    return {"MPI4PY_MPIABI": name, "LD_LIBRARY_PATH": str(prefix / "lib")}
