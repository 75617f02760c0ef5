"""Live gathers: fully sharded parameters, there only while they are needed (ZeRO-3, FSDP).

What ``workloads.gathers`` lists, done: the same calls in the same order.
"""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from steptime.strategies import Strategy, Work
from steptime.train.parallel.pools import LiveBucket, LivePool, allocate, release
from steptime.workloads.gathers import needed
from steptime.workloads.pipelines import Pass
from steptime.workloads.stage import Stage


class Visit(NamedTuple):
    """A unit that is computed in some pass: the units gathered before, and those let go of then."""

    gathered: frozenset[int]
    released: frozenset[int]


class LiveGathers:
    """Gathers the parameters of a unit while the unit before it is computed.

    ``begin`` starts a step; then every unit of every pass is announced by ``before`` and
    ``computed``, in the order of ``visits``.
    """

    def __init__(
        self, visits: tuple[Visit, ...], pools: tuple[LivePool, ...], strategy: Strategy
    ) -> None:
        self._visits = visits
        self._pools = pools
        self._strategy = strategy
        self._held: Counter[int] = Counter()  # how often each unit was gathered and not let go of
        self._coming: dict[int, list[Work]] = {}  # by visit
        self._next = 0

    def begin(self) -> None:
        """Start a step: gather the first unit."""
        self._next = 0
        self._gather(0)

    def before(self) -> None:
        """The next unit is about to be computed: gather the one after it, and wait for its own."""
        self._gather(self._next + 1)
        for work in self._coming.pop(self._next, ()):
            work.wait()

    def computed(self) -> None:
        """The unit has been computed: let go of parameters that nobody needs now."""
        for unit in self._visits[self._next].released:
            self._held[unit] -= 1
            if not self._held[unit]:
                for bucket in self._buckets(frozenset({unit})):
                    release(bucket.flat.parameters)
        self._next += 1

    def gather_all(self) -> None:
        """Gather everything, outside of a step."""
        self._fill(frozenset(range(1 + self._last_unit)))

    def release_all(self) -> None:
        """Let go of everything."""
        for bucket in self._buckets(frozenset(range(1 + self._last_unit))):
            release(bucket.flat.parameters)

    @property
    def _last_unit(self) -> int:
        return max(bucket.last for pool in self._pools for bucket in pool.buckets)

    def _gather(self, visit: int) -> None:
        if visit < len(self._visits) and self._visits[visit].gathered:
            units = self._visits[visit].gathered
            self._held.update(units)
            self._coming[visit] = self._start(units)

    def _fill(self, units: frozenset[int]) -> None:
        for work in self._start(units):
            work.wait()

    def _start(self, units: frozenset[int]) -> list[Work]:
        assert self._strategy.gather  # noqa: S101 - a strategy of stage 3 has it
        works: list[Work] = []
        for bucket in self._buckets(units):
            if allocate(bucket.flat.parameters):
                bucket.flat.parameters[bucket.owned.slice].copy_(bucket.own.parameters)
            if bucket.comm:
                works += self._strategy.gather(bucket.comm, bucket.flat.parameters)
        return works

    def _buckets(self, units: frozenset[int]) -> Iterator[LiveBucket]:
        for pool in self._pools:
            yield from (bucket for bucket in pool.buckets if bucket.first in units)


def visits(stage: Stage) -> tuple[Visit, ...]:
    """Every unit of every pass of a step, in order, of a stage that is the only one.

    A tied table is gathered with the embedding for the head too, and backward the other way round.
    """
    found = []
    for run in stage.order.passes(stage.number):
        places = range(len(stage.chunks[run.chunk]))
        for place in places if run.forward else reversed(places):
            unit = stage.unit(run.chunk, place)
            found.append(_visit(stage, run, unit))
    return tuple(found)


def _visit(stage: Stage, run: Pass, unit: int) -> Visit:
    last, tied = len(stage.gradients.units) - 1, stage.gradients.tied
    gathered: set[int] = set()
    if run.kind != "backward weight":
        gathered = needed(unit, last, forward=run.forward, tied=tied)
    released = {unit} if run.forward or run.releases else set()
    if run.forward and tied and unit in (0, last):
        released = {0, last} if unit == last else set()
    return Visit(frozenset(gathered), frozenset(released))
