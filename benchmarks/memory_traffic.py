"""How near all_reduce comes to what the memory can do: against copies, timed in turn by all ranks.

    python benchmarks/memory_traffic.py [--ranks 2] [--size 64MiB] [--pairs 31]

Every rank at once, S bytes of float32 a rank and p ranks; a time is the slowest rank's, a rate is
bytes read and written of all ranks over time:

- copy: S bytes into S others, 2pS in all. Whether the processor first fetches the lines that it
  writes is not counted, so the memory may in truth move 3pS.
- in place: what a rank does of all_reduce in the arena, alone on memory of its own: block by block
  add up p vectors of S/p and write the sum to all, 2pS in all. What is written was read before.
- arena: all_reduce of tensors that all ranks read and write where they are. Each rank reads S/p of
  p tensors and writes as much: 2pS.
- ordinary: all_reduce of tensors that no other rank sees. Those are read and written once, 2pS, if
  the slots by which blocks travel stay in the caches; slots counted, (5p - 1)S are moved.

The figure is how many times an all_reduce takes what its bytes do at the rate of copy, or of in
place. Neither is a limit: limits.py has a loop in C that is faster. Tensors that fit into the last
cache together are measured in that cache.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from as_rank import as_rank

from steptime.launch import run_ranks
from steptime.units import Size, format_bytes
from steptime.world import detect

BLOCK_BYTES = 256 << 10
BAR = 1.3


def rank(size: int, pairs: int) -> None:
    import torch.distributed as dist
    from side_by_side import in_turns, machine, ratio

    import steptime.backend

    def work() -> None:
        group = dist.new_group(backend=steptime.backend.NAME)
        p = dist.get_world_size()
        seconds = in_turns(make_contenders(group, size // 4), pairs, lambda: dist.barrier(group))
        if dist.get_rank() != 0:
            return
        print(f"{machine()}; last cache {last_cache()}")
        print(f"{p} ranks of 1 thread, S = {Size(size)}, {pairs} repetitions")
        print(f"{'':<15} {'bytes':>8} {'ms':>7} {'GB/s':>6}   {'times copy':>16}", end="")
        print(f"   {'times in place':>16}  bar")
        for name, contender, factor in (
            ("copy", "copy", 2 * p),
            ("in place", "in place", 2 * p),
            ("arena", "arena", 2 * p),
            ("ordinary", "ordinary", 2 * p),
            ("ordinary, slots", "ordinary", 5 * p - 1),
        ):
            taken = seconds[contender]
            rate = factor * size / np.median(taken) / 1e9
            row = f"{name:<15} {format_bytes(factor * size):>8} {1e3 * np.median(taken):7.2f}"
            row += f" {rate:6.1f}"
            for limit in ("copy", "in place") * (contender in ("arena", "ordinary")):
                row += f"   {ratio(taken, seconds[limit] * factor / (2 * p))!s:>16}"
            print(row + f"  {BAR}" * (contender in ("arena", "ordinary")))

    as_rank(work)


def make_contenders(group: Any, elements: int) -> dict[str, Callable[[], object]]:
    import torch
    import torch.distributed as dist

    from steptime.backend import empty

    source, target, ordinary = (torch.empty(elements).zero_() for _ in range(3))
    ranks = dist.get_world_size()
    parts = [torch.empty(elements // ranks).zero_().split(BLOCK_BYTES // 4) for _ in range(ranks)]
    arena = empty(elements).zero_()
    return {
        "copy": lambda: target.copy_(source),
        "in place": lambda: reduce_in_place(parts),
        "arena": lambda: dist.all_reduce(arena, group=group),
        "ordinary": lambda: dist.all_reduce(ordinary, group=group),
    }


def reduce_in_place(parts: Sequence[Sequence[Any]]) -> None:
    """Add up vectors, given in blocks, and write the sum to all."""
    for total, *others in zip(*parts, strict=True):
        for other in others:
            total.add_(other)
        for other in others:
            other.copy_(total)


def last_cache() -> str:
    sizes = sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"))
    return sizes[-1].read_text().strip() if sizes else "unknown"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--size", type=Size, default=Size("64MiB"))
    parser.add_argument("--pairs", type=int, default=31)
    options = parser.parse_args()
    if detect(os.environ) is not None:
        rank(options.size, options.pairs)
        return 0
    return run_ranks(sys.argv, options.ranks, threads=1)


if __name__ == "__main__":
    sys.exit(main())
