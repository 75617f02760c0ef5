"""Queues: the ops of every rank's streams as arrays, on the devices of a cluster."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Floats, Ints, Longs
from steptime.cluster import Device
from steptime.program import MAIN, Compute, Op, Program, Wait
from steptime.simulate.device import timer

COMPUTE, WAIT, COMMUNICATE = 0, 1, 2  # what an op does: its code


class Queues(NamedTuple):
    """The ops of all classes, one list after the other, and the queues that they stand in.

    ``ops_of``, shape (classes + 1,), says where the ops of a class begin. Of each op, shape (ops,):
    its ``code``, ``seconds`` on a device of speed 1, the ``part`` it is among its rank's parts of
    calls (see Matching), and ``after_of``, shape (ops + 1,), where its entries in ``after`` begin;
    in the same way ``wakes`` holds the other streams on which an op comes after it. The queue of
    class c on stream s holds places in the list of c, in ``queue`` from ``queue_of[c, s]`` to
    ``queue_of[c, s + 1]``.

    A *rank op* is one op of one rank; ``rank_ops_of``, shape (ranks + 1,), says where those of
    a rank begin. ``speed``: of each rank's device, shape (ranks,).
    """

    class_of: Ints
    ops_of: Ints
    code: NDArray[np.int8]
    seconds: Floats
    part: Ints
    after_of: Ints
    after: Ints
    wakes_of: Ints
    wakes: Ints
    queue_of: Ints
    queue: Ints
    rank_ops_of: Longs
    speed: Floats


def streams_of(program: Program) -> tuple[str, ...]:
    """The names of a program's streams, MAIN first."""
    return tuple(dict.fromkeys([MAIN, *(op.stream for ops in program.lists for op in ops)]))


def queues(program: Program, device: Device, speed: Floats) -> Queues:
    """The queues of a program on devices of these relative speeds, shape (ranks,).

    Raises UsageError when an op is of a dtype that the device has no rate for.
    """
    ops = [op for of_class in program.lists for op in of_class]
    seconds = timer(device)
    streams = {name: number for number, name in enumerate(streams_of(program))}
    by_stream: list[list[int]] = []
    for of_class in program.lists:
        own: list[list[int]] = [[] for _ in streams]
        for place, op in enumerate(of_class):
            own[streams[op.stream]].append(place)
        by_stream += own
    wakes = [tuple(on) for of_class in program.lists for on in _wakes(of_class, streams)]
    lengths = np.array([len(of_class) for of_class in program.lists], np.int64)
    ops_of = _offsets(lengths)
    code = np.array([_code(op) for op in ops], np.int8)
    ends = _offsets([len(queue) for queue in by_stream])
    classes = np.arange(len(program.lists)) * len(streams)
    return Queues(
        class_of=program.class_of.astype(np.int32),
        ops_of=ops_of,
        code=code,
        seconds=np.array([seconds(op) for op in ops], np.float64),
        part=np.concatenate([_parts(code[slice(*own)]) for own in pairwise(ops_of.tolist())]),
        after_of=_offsets([len(op.after) for op in ops]),
        after=np.array([place for op in ops for place in op.after], np.int32),
        wakes_of=_offsets([len(on) for on in wakes]),
        wakes=np.array([stream for on in wakes for stream in on], np.int32),
        queue_of=ends[classes[:, None] + np.arange(len(streams) + 1)],
        queue=np.array([place for queue in by_stream for place in queue], np.int32),
        rank_ops_of=np.concatenate([[0], np.cumsum(lengths[program.class_of])]),
        speed=speed.astype(np.float64),
    )


def _code(op: Op) -> int:
    return COMPUTE if isinstance(op, Compute) else WAIT if isinstance(op, Wait) else COMMUNICATE


def _parts(code: NDArray[np.int8]) -> Ints:
    """The number of parts of calls before each op of a list, by the ops' codes, shape (ops,)."""
    communicates = (code == COMMUNICATE).astype(np.int32)
    return np.asarray(np.cumsum(communicates, dtype=np.int32) - communicates)


def _wakes(ops: Sequence[Op], streams: Mapping[str, int]) -> list[Iterable[int]]:
    """For each op of a list the other streams with an op that comes after it."""
    found: dict[int, set[int]] = {}
    for op in ops:
        for place in op.after:
            if ops[place].stream != op.stream:
                found.setdefault(place % len(ops), set()).add(streams[op.stream])
    return [found.get(place, ()) for place in range(len(ops))]


def _offsets(sizes: Sequence[int] | Longs) -> Ints:
    return np.concatenate([[0], np.cumsum(np.asarray(sizes, np.int64))]).astype(np.int32)
