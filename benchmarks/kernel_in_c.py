"""The backend's kernel in C beside what it replaced, and beside gloo, in the same processes.

    python benchmarks/kernel_in_c.py [--ranks 2] [--pairs 31] [--sizes 4,1MiB] [--calls all_reduce]

A group of steptime in C and one in Python (STEPTIME_KERNEL) take turns with gloo, on float32: all
the calls of calls.py, all_reduce, and pingpong, a message to the next rank and one back. steptime's
tensors are in the arena, unless --ordinary. As in all_reduce.py: medians in µs, ratios of pairs of
one repetition with their quartiles, and nothing is timed that has not first given the right values.
The right-hand ratio says what C is worth.
"""

import argparse
import os
import sys
from typing import Any

import numpy as np
from all_reduce import on_ranks
from as_rank import as_rank
from calls import CALLS, Call, calls_of, part, vector, wanted

from steptime.units import Size

SIZES = "4,4KiB,64KiB,1MiB,16MiB"
COLUMNS = ("gloo", "python", "c")
EVERY = ("all_reduce", *CALLS, "pingpong")


def rank(names: list[str], sizes: list[int], pairs: int, ordinary: bool) -> None:
    import torch.distributed as dist
    from side_by_side import in_turns, machine, ratio

    def work() -> None:
        groups = {"gloo": None, "python": group_of("python"), "c": group_of("c")}
        first = dist.get_rank() == 0
        if first:
            print(machine())
            place = "ordinary tensors" if ordinary else "tensors in the arena"
            print(f"float32, {dist.get_world_size()} ranks, {place}, {pairs} repetitions, in µs")
            heads = "".join(f"{one:>10}" for one in COLUMNS)
            ratios = "".join(f"{f'{one} / c':>22}" for one in COLUMNS[:2])
            print(f"{'call':<15}{'size':>6}{heads}{ratios}")
        for name in names:
            for nbytes in sizes:
                runs = {
                    who: contender(name, group, nbytes // 4, who == "gloo" or ordinary)
                    for who, group in groups.items()
                }
                seconds = in_turns(runs, pairs, lambda: dist.barrier(groups["c"]))
                if first:
                    cells = "".join(f"{1e6 * np.median(seconds[who]):10.1f}" for who in COLUMNS)
                    found = [ratio(seconds[who], seconds["c"]) for who in COLUMNS[:2]]
                    ratios = "".join(f"{one!s:>22}" for one in found)
                    print(f"{name:<15}{Size(nbytes)!s:>6}{cells}{ratios}", flush=True)

    as_rank(work)


def group_of(kernel: str) -> Any:
    import torch.distributed as dist

    import steptime.backend

    os.environ["STEPTIME_KERNEL"] = kernel
    return dist.new_group(backend=steptime.backend.NAME)


def contender(name: str, group: Any, elements: int, ordinary: bool) -> Any:
    """What runs the call on a group, on tensors of its own; it has been seen to be right."""
    import torch
    import torch.distributed as dist

    from steptime.backend import empty

    ranks, here = dist.get_world_size(), dist.get_rank()
    elements = max(ranks, elements // ranks * ranks) if name in CALLS else elements
    make: Any = torch.empty if ordinary else empty
    source, target = make(elements), make(elements).zero_()
    source.copy_(vector(here, elements))
    call = more_calls(group).get(name) or calls_of(group)[name]
    call(source, target)
    every = [vector(other, elements) for other in range(ranks)]
    if name == "all_reduce":
        moved, right = source.clone(), torch.stack(every).sum(0)
        source.zero_()  # sums of it stay what they are, however often
    elif name == "pingpong":
        moved, right = target, every[here ^ 1] if here ^ 1 < ranks else target
    else:
        moved = {"broadcast": source, "reduce_scatter": part(target)}.get(name, target)
        right = wanted(name, elements)
    assert torch.equal(moved, right), f"{name} is wrong"
    dist.barrier()
    return lambda: call(source, target)


def more_calls(group: Any) -> dict[str, Call]:
    """Those that calls.py has not: its rival may be MPI."""
    import torch.distributed as dist

    here, ranks = dist.get_rank(), dist.get_world_size()
    other = here ^ 1

    def pingpong(source: Any, target: Any) -> None:
        if other >= ranks:
            return
        if here < other:
            dist.send(source, other, group)
            dist.recv(target, other, group)
        else:
            dist.recv(target, other, group)
            dist.send(source, other, group)

    return {
        "all_reduce": lambda source, _: dist.all_reduce(source, group=group),
        "pingpong": pingpong,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", default=",".join(EVERY))
    parser.add_argument("--ordinary", action="store_true")

    def work(asked: argparse.Namespace, sizes: list[int]) -> None:
        rank(asked.calls.split(","), sizes, asked.pairs, asked.ordinary)

    return on_ranks(parser, work, SIZES)


if __name__ == "__main__":
    sys.exit(main())
