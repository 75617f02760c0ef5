"""What calls take here, each kind alone and at several sizes: without a pause, and as in a step.

In a step a call often comes after computing: its ranks arrive one after another, threads have to
wake, and where ranks share cores they must get one first. A small call then takes about twice as
long as in a benchmark, which makes its calls without a pause. Where a device beside the cores
computes, which sleeping stands in for, they are free, and little of that is left.

How much of a call is work of the cores, rounds of computing and a call tell (``call_work.py``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import process_time, thread_time

import numpy as np
from numpy.typing import NDArray

from steptime.clock import now, sleep
from steptime.cluster import MESSAGE, POST
from steptime.collectives.execute import Vector
from steptime.measure.transport import BenchTransport
from steptime.replay.standin import StandIn, busy
from steptime.replay.standin import sleep as asleep
from steptime.replay.transport import Begin, GroupCall, ReplayTransport
from steptime.study.call_work import measure_rounds, work_and_rest

SIZES = (4 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20)
"""Bytes of the vectors: from where latency is all to where it is nothing."""

OF_ALL = (
    *("all_reduce", "all_gather", "reduce_scatter", "all_to_all"),
    *("broadcast", "reduce", "gather", "scatter"),
)
OF_TWO = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
"""Those that are timed on two ranks too, as on the two that share a layer."""

_AXES = ("data",)
_PASSES, _STEPS = 4, 1
_WAYS, _COMPUTING = 3, 1
"""A call follows another, or computing on its core, or sleep beside a device that computes."""

_BETWEEN_S = 1e-3
"""What a core needs for the computing between calls, as for a layer of a small model."""

_HIDING = 1 / 0.5e9
"""Seconds of computing a byte that hide a message: twice what slow memory takes to pass it on."""

_SMALL, _OFTEN = 1 << 20, 8
"""Vectors up to so many bytes are timed so often in each step, others once, as a step makes them: a
second one would find its data in the caches."""


@dataclass(frozen=True)
class Timed:
    """What calls of a kind, or messages, on so many ranks take: seconds, by bytes.

    Each is the median over some passes of the mean in a pass: many calls of a step take so many
    times the mean, a few of them being late by much. ``late``: what they take more after computing,
    and ``late_beside`` after sleeping. ``work``: the seconds of a core that each rank needs for
    one, and ``rest`` those in which no core works for it; empty of POST.
    """

    kind: str
    ranks: int
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    late: tuple[float, ...]
    late_beside: tuple[float, ...]
    work: tuple[float, ...] = ()
    rest: tuple[float, ...] = ()


@dataclass(frozen=True)
class _Pass:
    """What calls took in a pass, the mean over the ranks, seconds.

    ``took``: of each call, shape (steps, _WAYS, calls), and ``work``, shape (steps, calls): what
    all threads of a rank worked for those without a pause. ``rounds``: those of small sizes, shape
    (sizes, 2, 4).
    """

    took: NDArray[np.float64]
    work: NDArray[np.float64]
    rounds: NDArray[np.float64]


def measure_calls(
    make: Callable[[], ReplayTransport], cores: float, sizes: Sequence[int] = SIZES
) -> list[Timed]:
    """Time calls among all ranks, at least 2, and among two; ``make`` gives this rank's transport.

    All groups of two call at once. Messages go from each rank to the next, all at once. Every rank
    calls it alike and returns the same. ``cores``: how many ranks can compute at one time.
    """
    ranks = make().world.ranks
    jobs = [(kind, ranks) for kind in (MESSAGE, POST, *OF_ALL)]
    if ranks > 2:
        jobs += [(kind, 2) for kind in OF_TWO]
    found: dict[tuple[str, int], list[_Pass]] = {job: [] for job in jobs}
    # Pass after pass, so that what disturbs the machine for a while spoils no call alone.
    for _ in range(_PASSES):
        for kind, members in jobs:
            found[kind, members].append(_pass(make(), kind, members, _vectors(sizes, members)))
    return [
        _timed(kind, members, _vectors(sizes, members), passes, ranks // members * members, cores)
        for (kind, members), passes in found.items()
    ]


def _vectors(sizes: Sequence[int], members: int) -> list[int]:
    """The bytes of each call in turn, of whole elements for each member; the first is not timed."""
    each = 4 * members
    whole = [-(-size // each) * each for size in sizes]
    return [whole[0], *(size for size in whole for _ in range(_OFTEN if size <= _SMALL else 1))]


def _is_small(vectors: Sequence[int], nbytes: int) -> bool:
    return nbytes <= max(_SMALL, vectors[0])


def _lone(kind: str, members: int) -> int:
    """How many ranks call where one group does alone: of messages, two that send each other one."""
    return 2 if kind == MESSAGE else members


def _timed(
    kind: str,
    members: int,
    vectors: Sequence[int],
    passes: Sequence[_Pass],
    calling: int,
    cores: float,
) -> Timed:
    """The times of some passes in which so many ranks called at once."""
    sizes, of = tuple(dict.fromkeys(vectors)), np.array(vectors[1:])
    seconds = np.array([one.took for one in passes])
    means = [seconds[..., 1:][..., of == size].mean(axis=(1, 3)) for size in sizes]
    alone, *after = np.median(means, axis=1).T
    if kind == POST:  # a rank posts both ends
        return Timed(kind, members, sizes, tuple((alone / 2).tolist()), (), ())
    late = np.maximum(np.array(after) - alone, 0)
    small = np.array([_is_small(vectors, size) for size in sizes])
    late[:, ~small] = late[:, small][:, -1:]
    rounds = np.median([one.rounds for one in passes], axis=0)
    crowding = max(1.0, _lone(kind, members) / cores)
    work, rest, posting_s = work_and_rest(rounds, crowding)
    # Before large calls no computing is timed: it makes no difference that could be told.
    works = np.array([one.work for one in passes])
    large = np.array(
        [np.median(works[..., 1:][..., of == s].mean(axis=(1, 2))) for s in sizes[len(work) :]]
    )
    large = np.maximum(large - posting_s, 0.0)
    beyond = alone[~small] - max(1.0, calling / cores) * large
    parts = (alone, *late, [*work, *large], [*rest, *np.maximum(beyond, rest[-1])])
    return Timed(kind, members, sizes, *(tuple(map(float, part)) for part in parts))


def _pass(transport: ReplayTransport, kind: str, members: int, vectors: Sequence[int]) -> _Pass:
    """Time the calls of a kind once more.

    Of each step first all calls one after another, then the small ones after computing and after
    sleeping: of large ones that makes no difference that could be told.
    """
    rank, ranks = transport.world.rank, transport.world.ranks
    groups = np.arange(ranks // members * members, dtype=np.int32).reshape(-1, members)
    transport.form_groups(_AXES, groups)
    transport.connect([(1, 0), *((one, (one + 1) % ranks) for one in range(ranks))])
    dtype = transport.element("fp32")
    source, target = (transport.vector(max(vectors) // 4, dtype) for _ in range(2))
    source[:], target[:] = 0, 0
    work, took = busy(), np.zeros((_STEPS + 1, _WAYS, len(vectors)))
    worked = np.zeros((_STEPS + 1, len(vectors)))
    small = [] if kind == POST else [n for n in dict.fromkeys(vectors) if _is_small(vectors, n)]
    calls = {
        nbytes: _call(transport, kind, members, source[: nbytes // 4], target[: nbytes // 4], work)
        for nbytes in (set(vectors) if rank < groups.size else ())
    }
    if calls:
        for step, way, number in np.ndindex(took.shape):
            if way and (kind == POST or not _is_small(vectors, vectors[number])):
                continue
            if way:
                _compute(work if way == _COMPUTING else asleep, _BETWEEN_S)
            before, start = process_time(), now()
            spent_s = calls[vectors[number]]()
            took[step, way, number] = now() - start - (spent_s if kind == POST else 0.0)
            if not way:
                worked[step, number] = process_time() - before
    took, worked = (
        transport.world.gather(of_rank)[: groups.size].mean(axis=0)
        for of_rank in (took[1:], worked[1:])
    )
    rounds = []
    for nbytes in small:
        call = alone = calls.get(nbytes)
        if kind == MESSAGE:
            ends = source[: nbytes // 4], target[: nbytes // 4]
            alone = partial(_shift, transport.world, *ends, ranks=2)
        alone = alone if rank < _lone(kind, members) else None
        rounds.append(measure_rounds(transport.world, call, alone, work))
    transport.close()
    return _Pass(took, worked, np.array(rounds))


def _call(
    transport: ReplayTransport,
    kind: str,
    members: int,
    source: Vector,
    target: Vector,
    work: StandIn,
) -> Callable[[], float]:
    """A call of a vector as long as ``source`` and ``target``, to its end.

    It returns the seconds that its thread has worked by when it was under way; POST those that it
    spent computing.
    """
    if kind == MESSAGE:
        return partial(_shift, transport.world, source, target)
    if kind == POST:
        return partial(_hidden_shift, transport.world, source, target, work)
    share, empty = len(source) // members, source[:0]
    whole, part = {
        "all_reduce": (target, source),
        "broadcast": (target, empty),
        "reduce": (target, empty),
        "all_gather": (target, source[:share]),
        "gather": (target, source[:share]),
        "reduce_scatter": (source, target[:share]),
        "scatter": (source, target[:share]),
        "all_to_all": (source, target),
    }[kind]
    call = GroupCall(kind, _AXES, whole, part, root=0)
    block = transport.blocking(call)
    return partial(_to_its_end, transport, block, transport.collective(call))


def _to_its_end(
    transport: ReplayTransport, block: Callable[[], float] | None, begin: Begin
) -> float:
    if block:
        return block()
    before = thread_time()
    pending = begin()
    posted_s = thread_time() - before
    while not pending.done():
        transport.wait_for_any([pending])
    return posted_s


def _shift(
    world: BenchTransport, source: Vector, target: Vector, ranks: int | None = None
) -> float:
    """A message to the next rank and one from the rank before, of the first ``ranks`` or of all."""
    ranks, before = ranks or world.ranks, thread_time()
    received = world.receive(target, (world.rank - 1) % ranks)
    sent = world.send(source, (world.rank + 1) % ranks)
    posted_s = thread_time() - before
    received()
    sent()
    return posted_s


def _hidden_shift(world: BenchTransport, source: Vector, target: Vector, work: StandIn) -> float:
    """The same behind computing, whose seconds it returns: what is left is what holds a rank up."""
    received = world.receive(target, (world.rank - 1) % world.ranks)
    computed_s = _compute(work, _BETWEEN_S)
    sent = world.send(source, (world.rank + 1) % world.ranks)
    computed_s += _compute(work, _BETWEEN_S + _HIDING * source.nbytes)
    received()
    sent()
    return computed_s


def _compute(work: StandIn, seconds: float) -> float:
    """Compute; how long it took, which is longer where ranks share cores."""
    start = now()
    work(seconds, lambda: False, sleep)
    return now() - start
