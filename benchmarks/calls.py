"""Calls other than all_reduce: steptime beside gloo, or beside MPI, in the same processes.

    python benchmarks/calls.py [--ranks 2] [--pairs 31] [--sizes 4,1MiB] [--calls broadcast]
    python benchmarks/calls.py --mpi mpich
    python benchmarks/calls.py --mpi openmpi --prefix DIR

Of float32: broadcast from rank 0; all_gather, reduce_scatter and all_to_all of a vector that is cut
equally; sendrecv: each rank sends to the next and receives from the one before. A size is that of
the whole vector of a rank. As in all_reduce.py: turns of one repetition, medians in µs, ratios of
pairs with their quartiles, and nothing is timed that has not first given the right values. A ratio
below 1 is one that steptime loses. There are no bars.
"""

import argparse
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from all_reduce import of_mpi, on_ranks
from as_rank import as_rank

from steptime.units import Size

CALLS = ("broadcast", "all_gather", "reduce_scatter", "all_to_all", "sendrecv")
SIZES = "4KiB,64KiB,1MiB,16MiB"
Call = Callable[[Any, Any], object]
"""What moves from a tensor into another; broadcast works on the first alone."""


def rank(rival: str, names: list[str], sizes: list[int], pairs: int) -> None:
    mpi = of_mpi() if rival != "gloo" else None  # before torch: MPI sets up the process
    import torch.distributed as dist
    from side_by_side import in_turns, machine, ratio

    import steptime.backend

    def work() -> None:
        ours = dist.new_group(backend=steptime.backend.NAME)
        theirs = calls_of_mpi(mpi) if mpi else calls_of(None)
        first = dist.get_rank() == 0
        if first:
            print(machine())
            print(f"float32, {dist.get_world_size()} ranks, {pairs} repetitions, in µs")
            columns = f"{'call':<15}{'size':>6}{rival:>10}{'ordinary':>10}{'arena':>10}"
            print(columns + "".join(f"{f'{rival} / {one}':>24}" for one in ("ordinary", "arena")))
        for name in names:
            for nbytes in sizes:
                runs = contenders(name, theirs[name], calls_of(ours)[name], nbytes // 4)
                seconds = in_turns(runs, pairs, lambda: dist.barrier(ours))
                if first:
                    cells = "".join(f"{1e6 * np.median(one):10.1f}" for one in seconds.values())
                    found = [ratio(seconds["rival"], seconds[n]) for n in ("ordinary", "arena")]
                    ratios = "".join(f"{one!s:>24}" for one in found)
                    print(f"{name:<15}{Size(nbytes)!s:>6}{cells}{ratios}", flush=True)

    as_rank(work)


def calls_of(group: Any) -> Mapping[str, Call]:
    """Each call through torch.distributed on a group; None is the default one, of gloo."""
    import torch.distributed as dist

    here, ranks = dist.get_rank(), dist.get_world_size()

    def sendrecv(source: Any, target: Any) -> None:
        ops = [
            dist.P2POp(dist.isend, source, (here + 1) % ranks, group),
            dist.P2POp(dist.irecv, target, (here - 1) % ranks, group),
        ]
        for work in dist.batch_isend_irecv(ops):
            work.wait()

    return {
        "broadcast": lambda source, _: dist.broadcast(source, 0, group=group),
        "all_gather": lambda s, t: dist.all_gather_single(t, part(s), group=group),
        "reduce_scatter": lambda s, t: dist.reduce_scatter_single(part(t), s, group=group),
        "all_to_all": lambda s, t: dist.all_to_all_single(t, s, group=group),
        "sendrecv": sendrecv,
    }


def calls_of_mpi(mpi: Any) -> Mapping[str, Call]:
    """The same through mpi4py, on NumPy's buffers."""
    world = mpi.COMM_WORLD
    here, ranks = world.rank, world.size

    def of(tensor: Any) -> list[Any]:
        return [tensor.numpy(), mpi.FLOAT]

    return {
        "broadcast": lambda source, _: world.Bcast(of(source), 0),
        "all_gather": lambda s, t: world.Allgather(of(part(s)), of(t)),
        "reduce_scatter": lambda s, t: world.Reduce_scatter_block(of(s), of(part(t))),
        "all_to_all": lambda s, t: world.Alltoall(of(s), of(t)),
        "sendrecv": lambda s, t: world.Sendrecv(
            of(s), (here + 1) % ranks, 0, of(t), (here - 1) % ranks, 0
        ),
    }


def part(tensor: Any) -> Any:
    """The first of as many equal parts as there are ranks."""
    import torch.distributed as dist

    return tensor[: tensor.numel() // dist.get_world_size()]


def contenders(name: str, theirs: Call, ours: Call, elements: int) -> dict[str, Any]:
    """What each contender runs, on tensors of its own; each has been seen to be right."""
    import torch
    import torch.distributed as dist

    from steptime.backend import empty

    ranks = dist.get_world_size()
    elements = max(ranks, elements // ranks * ranks)
    runs = {}
    for who, call, make in (
        ("rival", theirs, torch.empty),
        ("ordinary", ours, torch.empty),
        ("arena", ours, empty),
    ):
        source, target = make(elements), make(elements).zero_()
        source.copy_(vector(dist.get_rank(), elements))
        call(source, target)
        moved = {"broadcast": source, "reduce_scatter": part(target)}.get(name, target)
        assert torch.equal(moved, wanted(name, elements)), f"{who}: {name} is wrong"
        dist.barrier()
        runs[who] = lambda call=call, source=source, target=target: call(source, target)
    return runs


def vector(rank: int, elements: int) -> Any:
    import torch

    return torch.arange(elements, dtype=torch.int32).remainder_(1021).float() * (rank + 1)


def wanted(name: str, elements: int) -> Any:
    """What a call is to leave on this rank."""
    import torch
    import torch.distributed as dist

    here, ranks = dist.get_rank(), dist.get_world_size()
    size = elements // ranks
    own = slice(here * size, (here + 1) * size)
    every = [vector(other, elements) for other in range(ranks)]
    return {
        "broadcast": lambda: every[0],
        "all_gather": lambda: torch.cat([one[:size] for one in every]),
        "reduce_scatter": lambda: torch.stack(every).sum(0)[own],
        "all_to_all": lambda: torch.cat([one[own] for one in every]),
        "sendrecv": lambda: every[here - 1],
    }[name]()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", default=",".join(CALLS))

    def work(asked: argparse.Namespace, sizes: list[int]) -> None:
        rank(asked.mpi or "gloo", asked.calls.split(","), sizes, asked.pairs)

    return on_ranks(parser, work, SIZES)


if __name__ == "__main__":
    sys.exit(main())
