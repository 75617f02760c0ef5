"""What all_reduce on one host can reach: a loop in C over shared pages, beside gloo and steptime.

    python benchmarks/limits.py [--ranks 2] [--pairs 31] [--sizes 4,64MiB]

All take turns in the same processes, on float32, in place, and must give the exact sum first:

- gloo, and steptime on tensors in its arena;
- C: benchmarks/fused.c, compiled here with cc and called by ctypes on pages that all ranks have
  mapped: what memory and the processor allow;
- in torch: the same loop as a ProcessGroup of torch.distributed in a few lines of Python: what a
  backend that is written in Python can reach.

A cell is the median in µs, a ratio that of pairs of one repetition with its quartiles. Vectors that
fit into the last cache together are summed there and not in memory.
"""

import argparse
import ctypes
import mmap
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from as_rank import as_rank

from steptime.launch import run_ranks
from steptime.units import Size, parse_bytes
from steptime.world import detect

SIZES = "4,1KiB,64KiB,1MiB,4MiB,16MiB,64MiB"
COLUMNS = ("gloo", "arena", "in torch", "C")


def rank(library: str, sizes: list[int], pairs: int) -> None:
    import torch.distributed as dist
    from memory_traffic import last_cache
    from side_by_side import in_turns, machine, ratio

    import steptime.backend

    def work() -> None:
        ours = dist.new_group(backend=steptime.backend.NAME)
        fused = Fused(library, max(sizes))
        inside = in_torch(fused)
        if dist.get_rank() == 0:
            print(f"{machine()}; last cache {last_cache()}")
            print(
                f"all_reduce of float32, {dist.get_world_size()} ranks, {pairs} repetitions, in µs"
            )
            heads = "".join(f"{name:>10}" for name in COLUMNS)
            ratios = "".join(f"{f'gloo / {name}':>22}" for name in COLUMNS[1:])
            print(f"{'size':>6}{heads}{ratios}", flush=True)
        for nbytes in sizes:
            contenders = contenders_of(fused, inside, ours, nbytes // 4)
            seconds = in_turns(contenders, pairs, lambda: dist.barrier(ours))
            if dist.get_rank() == 0:
                cells = "".join(f"{1e6 * np.median(seconds[name]):10.1f}" for name in COLUMNS)
                found = [str(ratio(seconds["gloo"], seconds[name])) for name in COLUMNS[1:]]
                print(
                    f"{Size(nbytes)!s:>6}{cells}{''.join(f'{one:>22}' for one in found)}",
                    flush=True,
                )

    as_rank(work)


class Fused:
    """The loop in C, and the pages that the ranks of the default group have mapped for it."""

    def __init__(self, library: str, most: int) -> None:
        import torch
        import torch.distributed as dist

        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.stride = -(-most // mmap.PAGESIZE) * mmap.PAGESIZE
        head = mmap.PAGESIZE
        self._pages = common_pages(head + self.ranks * self.stride)
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))
        self._first = self._start + head
        every = torch.frombuffer(self._pages, dtype=torch.float32, offset=head)
        own = self.rank * self.stride // 4
        self.tensor = every[own : own + most // 4]
        self._call = ctypes.CDLL(library).fused
        size, number = ctypes.c_size_t, ctypes.c_int
        self._call.argtypes = [ctypes.c_void_p, ctypes.c_void_p, size, size, number, number]
        self._call.restype = None

    def sum(self, elements: int) -> None:
        """Sum the first elements of the tensors of all ranks, in place."""
        stride = self.stride // 4
        self._call(self._start, self._first, stride, elements, self.rank, self.ranks)


def common_pages(size: int) -> mmap.mmap:
    """Bytes, zero at first, that all ranks of the default group have mapped."""
    import torch.distributed as dist

    first = dist.get_rank() == 0
    name = [tempfile.mkstemp(dir="/dev/shm")[1] if first else None]
    dist.broadcast_object_list(name, 0)
    with Path(str(name[0])).open("r+b") as file:
        file.truncate(size)
        pages = mmap.mmap(file.fileno(), size)
    dist.barrier()
    if first:
        Path(str(name[0])).unlink()
    return pages


def compiled(source: str, folder: str) -> Path:
    """A C file of this folder as a library in another one."""
    library, given = Path(folder) / "bare.so", Path(__file__).with_name(source)
    flags = ["-O3", "-march=native", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "-o", library, given], check=True)
    return library


def in_torch(fused: Fused) -> Any:
    """A group of torch.distributed whose all_reduce is the loop, of the pages' own tensors."""
    import torch.distributed as dist

    class Done(dist.Work):
        def wait(self, timeout: object = None) -> bool:  # noqa: ARG002
            return True

    done = Done()

    class Group(dist.ProcessGroup):
        def __init__(self, rank: int, size: int) -> None:
            super().__init__(rank, size)

        def allreduce(self, tensors: list[Any], _: object = None) -> Done:
            fused.sum(tensors[0].numel())
            return done

        def getBackendName(self) -> str:  # noqa: N802  # torch's name
            return "fused"

    return group_of("fused", Group)


def group_of(name: str, made: Callable[[int, int], Any]) -> Any:
    """A group of torch.distributed of all ranks, made by a class of ProcessGroup."""
    import torch.distributed as dist

    def create(_: object, rank: int, size: int, __: object) -> Any:
        return made(rank, size)

    dist.Backend.register_backend(name, create, devices=["cpu"])
    return dist.new_group(backend=name)


def contenders_of(
    fused: Fused, inside: Any, ours: Any, elements: int
) -> dict[str, Callable[[], object]]:
    """What each contender runs; each has been seen to sum exactly."""
    import torch
    import torch.distributed as dist

    from steptime.backend import empty

    plain, arena, shared = torch.empty(elements), empty(elements), fused.tensor[:elements]
    runs: dict[str, tuple[Any, Callable[[], object]]] = {
        "gloo": (plain, lambda: dist.all_reduce(plain)),
        "arena": (arena, lambda: dist.all_reduce(arena, group=ours)),
        "in torch": (shared, lambda: dist.all_reduce(shared, group=inside)),
        "C": (shared, lambda: fused.sum(elements)),
    }
    pattern = torch.arange(elements, dtype=torch.int32).remainder_(1021).float()
    factor = torch.arange(1.0, dist.get_world_size() + 1)
    for name, (tensor, run) in runs.items():
        torch.mul(pattern, factor[dist.get_rank()], out=tensor)
        run()
        assert torch.equal(tensor, pattern * factor.sum()), f"{name}: a wrong sum"
        tensor.zero_()  # sums of it stay what they are, however often
        dist.barrier()
    return {name: run for name, (_, run) in runs.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=31)
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--library", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if detect(os.environ) is not None:
        rank(options.library, list(map(parse_bytes, options.sizes.split(","))), options.pairs)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        program = [*sys.argv, "--library", str(compiled("fused.c", folder))]
        return run_ranks(program, options.ranks, threads=1)


if __name__ == "__main__":
    sys.exit(main())
