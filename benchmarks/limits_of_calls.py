"""What calls on one host can reach: a bare loop in C over shared pages, beside gloo and steptime.

    python benchmarks/limits_of_calls.py [--ranks 2] [--pairs 31] [--sizes 4,1MiB] [--calls NAMES]

As limits.py for all_reduce, for other calls: all take turns in the same processes, on
float32, and must give the right values first:

- gloo, and steptime on tensors in its arena;
- C: benchmarks/moved.c, compiled here with cc and called by ctypes on pages that all ranks have
  mapped: what memory and the processor allow;
- in torch: the same C as a ProcessGroup of torch.distributed in a few lines of Python, that takes
  tensors of those pages and nothing else, and checks nothing: what a backend that is written in
  Python can reach.

A cell is the median in µs, a ratio that of pairs of one repetition with its quartiles.
"""

import argparse
import ctypes
import mmap
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
from all_reduce import on_ranks
from as_rank import as_rank
from calls import Call, calls_of, part, vector, wanted
from kernel_in_c import contender, more_calls
from limits import common_pages, compiled, group_of

from steptime.units import Size

SIZES = "4,4KiB,64KiB,1MiB,16MiB"
CALLS = ("broadcast", "all_gather", "reduce_scatter", "all_to_all", "sendrecv", "pingpong")
COLUMNS = ("gloo", "arena", "in torch", "C")
WHOLE = ("broadcast", "sendrecv", "pingpong")
"""Of these a tensor is not cut into a part for each rank."""
SLOT = 65536
"""As in moved.c."""


def rank(library: str, names: list[str], sizes: list[int], pairs: int) -> None:
    import torch.distributed as dist
    from side_by_side import in_turns, machine, ratio

    import steptime.backend

    def work() -> None:
        ours = dist.new_group(backend=steptime.backend.NAME)
        bare = Bare(library, max(4 * dist.get_world_size(), *sizes))
        inside = in_torch(bare)
        if dist.get_rank() == 0:
            print(machine())
            print(f"float32, {dist.get_world_size()} ranks, {pairs} repetitions, in µs")
            heads = "".join(f"{name:>10}" for name in COLUMNS)
            ratios = "".join(f"{f'arena / {name}':>22}" for name in COLUMNS[2:])
            print(f"{'call':<12}{'size':>6}{heads}{ratios}", flush=True)
        for name in names:
            for nbytes in sizes:
                parts = 1 if name in WHOLE else dist.get_world_size()
                elements = max(parts, nbytes // 4)
                runs = {
                    "gloo": contender(name, None, elements, True),
                    "arena": contender(name, ours, elements, False),
                    "in torch": on_pages(name, bare, elements, call_of(name, inside)),
                    "C": on_pages(name, bare, elements, bare.call_of(name, 4 * elements)),
                }
                seconds = in_turns(runs, pairs, lambda: dist.barrier(ours))
                if dist.get_rank() == 0:
                    cells = "".join(f"{1e6 * np.median(seconds[one]):10.1f}" for one in COLUMNS)
                    found = [ratio(seconds["arena"], seconds[one]) for one in COLUMNS[2:]]
                    ratios = "".join(f"{one!s:>22}" for one in found)
                    print(f"{name:<12}{Size(nbytes)!s:>6}{cells}{ratios}", flush=True)

    as_rank(work)


class Place(ctypes.Structure):
    """``struct place`` of moved.c."""

    _fields_ = (
        ("all", ctypes.c_void_p),
        ("first", ctypes.c_void_p),
        ("stride", ctypes.c_size_t),
        ("rank", ctypes.c_int),
        ("ranks", ctypes.c_int),
    )


class Bare:
    """The calls of moved.c, and the pages that the ranks of the default group have mapped."""

    def __init__(self, library: str, most: int) -> None:
        import torch
        import torch.distributed as dist

        here, ranks = dist.get_rank(), dist.get_world_size()
        self.other = here ^ 1
        stride = -(-max(most, SLOT) // mmap.PAGESIZE) * mmap.PAGESIZE
        self._pages = common_pages(mmap.PAGESIZE + 3 * ranks * stride)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))
        self._place = Place(start, start + mmap.PAGESIZE, stride, here, ranks)
        self.at = ctypes.addressof(self._place)
        every = torch.frombuffer(self._pages, dtype=torch.float32, offset=mmap.PAGESIZE)
        own = 3 * here * stride // 4
        self.source = every[own : own + most // 4]
        self.target = every[own + stride // 4 : own + (stride + most) // 4]
        moved = ctypes.CDLL(library)
        address, number, count = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
        for call in ("broadcast", "all_gather", "reduce_scatter", "all_to_all", "post"):
            getattr(moved, call).argtypes = [address, count]
        moved.take.argtypes = [address, number, count]
        moved.finish.argtypes = [address]
        self.moved = moved

    def call_of(self, name: str, nbytes: int) -> Callable[..., object]:
        """What a call of so many bytes is without torch."""
        at, moved, other = self.at, self.moved, self.other
        first = other > self._place.rank

        def pingpong(*_: object) -> None:
            if first:
                moved.post(at, nbytes)
            moved.take(at, other, nbytes)
            if not first:
                moved.post(at, nbytes)

        def sendrecv(*_: object) -> None:
            moved.post(at, nbytes)
            moved.take(at, other, nbytes)
            moved.finish(at)

        messages: dict[str, Callable[..., object]] = {"pingpong": pingpong, "sendrecv": sendrecv}
        return messages.get(name) or (lambda *_: getattr(moved, name)(at, nbytes))


def in_torch(bare: Bare) -> Any:
    """A group of torch.distributed whose calls are those of C, on the pages' own tensors."""
    import torch.distributed as dist

    at, moved = bare.at, bare.moved

    class Done(dist.Work):
        def wait(self, timeout: object = None) -> bool:  # noqa: ARG002
            return True

    class Posted(dist.Work):
        def wait(self, timeout: object = None) -> bool:  # noqa: ARG002
            moved.finish(at)
            return True

    done, posted = Done(), Posted()

    class Group(dist.ProcessGroup):
        def __init__(self, rank: int, size: int) -> None:
            super().__init__(rank, size)

        def broadcast(self, tensors: list[Any], _: object = None) -> Done:
            moved.broadcast(at, tensors[0].nbytes)
            return done

        def all_gather_single(self, output: Any, _: object, __: object = None) -> Done:
            moved.all_gather(at, output.nbytes)
            return done

        def reduce_scatter_single(self, _: object, source: Any, __: object = None) -> Done:
            moved.reduce_scatter(at, source.nbytes)
            return done

        def all_to_all_single(self, output: Any, *_: object) -> Done:
            moved.all_to_all(at, output.nbytes)
            return done

        _allgather_base = all_gather_single
        _reduce_scatter_base = reduce_scatter_single
        alltoall_base = all_to_all_single

        def send(self, tensors: list[Any], _: int, __: int) -> dist.Work:
            nbytes = tensors[0].nbytes
            moved.post(at, nbytes)
            return done if nbytes <= SLOT else posted

        def recv(self, tensors: list[Any], peer: int, _: int) -> Done:
            moved.take(at, peer, tensors[0].nbytes)
            return done

        def getBackendName(self) -> str:  # noqa: N802  # torch's name
            return "bare"

    return group_of("bare", Group)


def call_of(name: str, group: Any) -> Call:
    """A call through torch.distributed."""
    return more_calls(group).get(name) or calls_of(group)[name]


def on_pages(name: str, bare: Bare, elements: int, call: Callable[..., object]) -> Any:
    """What runs a call on the pages' tensors; it has been seen to be right."""
    import torch
    import torch.distributed as dist

    source, target = bare.source[:elements], bare.target[:elements].zero_()
    source.copy_(vector(dist.get_rank(), elements))
    dist.barrier()
    call(source, target)
    moved = {"broadcast": source, "reduce_scatter": part(target)}.get(name, target)
    right = vector(bare.other, elements) if name == "pingpong" else wanted(name, elements)
    assert torch.equal(moved, right), f"{name} is wrong"
    dist.barrier()
    return lambda: call(source, target)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--calls", default=",".join(CALLS))

    def work(asked: argparse.Namespace, sizes: list[int]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            rank(str(compiled("moved.c", folder)), asked.calls.split(","), sizes, asked.pairs)

    return on_ranks(parser, work, SIZES)


if __name__ == "__main__":
    sys.exit(main())
