"""What calls take here, each kind alone and at several sizes, made as a proxy makes them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steptime.cluster import MESSAGE
from steptime.program import Collective, Op, Program, Recv, Send, Wait
from steptime.replay.backends import stand_in
from steptime.replay.device import Device
from steptime.replay.replay import replay
from steptime.replay.transport import ReplayTransport

SIZES = (4 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20)
"""Bytes of the vectors: from where latency is all to where it is nothing."""

OF_ALL = (
    *("all_reduce", "all_gather", "reduce_scatter", "all_to_all"),
    *("broadcast", "reduce", "gather", "scatter"),
)
OF_TWO = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
"""Those that are timed on two ranks too, as on the two that share a layer."""

_AXIS, _ROW = "data", "row"
_PASSES, _STEPS = 4, 3
_SMALL, _OFTEN = 1 << 20, 4
"""Vectors up to so many bytes are timed so often in each step, others once, as a step makes them: a
second one would find its data in the caches."""


@dataclass(frozen=True)
class Timed:
    """What calls of a kind, or messages, on so many ranks take: seconds, the median, by bytes."""

    kind: str
    ranks: int
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]


def measure_calls(make: Callable[[], ReplayTransport], sizes: Sequence[int] = SIZES) -> list[Timed]:
    """Time calls among all ranks, at least 2, and among two; ``make`` gives this rank's transport.

    Messages go from each rank to the next, all at once. Every rank calls it alike and returns the
    same. The ranks must be on one host, whose clock they share.
    """
    ranks = make().world.ranks
    jobs = [(MESSAGE, ranks), *((kind, ranks) for kind in OF_ALL)]
    if ranks > 2:
        jobs += [(kind, 2) for kind in OF_TWO]
    found: dict[tuple[str, int], list[NDArray[np.float64]]] = {job: [] for job in jobs}
    # Pass after pass, so that what disturbs the machine for a while spoils no call alone.
    for _ in range(_PASSES):
        for kind, members in jobs:
            vectors = _vectors(sizes, members)
            found[kind, members].append(_seconds(make(), _program(kind, ranks, members, vectors)))
    return [
        _timed(kind, members, _vectors(sizes, members), np.concatenate(seconds))
        for (kind, members), seconds in found.items()
    ]


def _vectors(sizes: Sequence[int], members: int) -> list[int]:
    """The bytes of each call in turn, of whole elements for each member; the first is not timed."""
    each = 4 * members
    whole = [-(-size // each) * each for size in sizes]
    return [whole[0], *(size for size in whole for _ in range(_OFTEN if size <= _SMALL else 1))]


def _timed(kind: str, members: int, vectors: Sequence[int], seconds: NDArray[np.float64]) -> Timed:
    """The medians of ``seconds``, shape (steps, calls that are timed)."""
    of = np.array(vectors[1:])
    sizes = tuple(dict.fromkeys(vectors))
    return Timed(
        kind, members, sizes, tuple(float(np.median(seconds[:, of == size])) for size in sizes)
    )


def _seconds(transport: ReplayTransport, program: Program) -> NDArray[np.float64]:
    """From the end of a call to that of the next on the slowest rank, shape (steps, calls - 1)."""
    world = transport.world
    replayed = replay(
        program, transport, steps=_STEPS, warmup=1, compute=stand_in("nothing"), device=Device()
    )
    calls = np.cumsum([isinstance(op, Wait) for op in program.lists[0]])
    ends = np.full((_STEPS, int(calls[-1])), -np.inf)
    np.maximum.at(
        ends, (replayed.rows["step"] - 1, calls[replayed.rows["place"]]), replayed.rows["end"]
    )
    return np.asarray(np.diff(world.gather(ends).max(axis=0), axis=1))


def _program(kind: str, ranks: int, members: int, vectors: Sequence[int]) -> Program:
    """Calls one after another on the first ``members`` ranks; the others, if any, do nothing."""
    ops: list[Op] = []
    for nbytes in vectors:
        after = (len(ops) - 1,)  # the one before, or the end of the step before
        calls = _shift(nbytes, after) if kind == MESSAGE else [_collective(kind, nbytes, after)]
        ops += calls
        ops.append(Wait(name="wait", after=tuple(range(len(ops) - len(calls), len(ops)))))
    idle = np.arange(ranks) >= members
    lists: tuple[tuple[Op, ...], ...] = (tuple(ops), ())
    return Program(
        name=kind,
        axes={_AXIS: members, **({_ROW: -(-ranks // members)} if members < ranks else {})},
        lists=lists[: 1 + int(idle.any())],
        class_of=idle.astype(np.int32),
    )


def _collective(kind: str, nbytes: int, after: tuple[int, ...]) -> Collective:
    return Collective(name=kind, kind=kind, group=(_AXIS,), nbytes=nbytes, after=after)


def _shift(nbytes: int, after: tuple[int, ...]) -> list[Op]:
    return [
        Send(name="send", axis=_AXIS, by=1, nbytes=nbytes, stream="out", after=after),
        Recv(name="receive", axis=_AXIS, by=-1, nbytes=nbytes, stream="in", after=after),
    ]
