"""Live sums: a rank's gradients summed over replicas, parameters updated and shared.

What ``workloads.gradient.Summing`` lists, done: the same calls in the same order.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from steptime.strategies import Strategy, Work
from steptime.train.layout import Slot
from steptime.train.parallel.axes import Axes
from steptime.train.parallel.gathers import LiveGathers, visits
from steptime.train.parallel.lines import Lines
from steptime.train.parallel.pools import LiveBucket, LivePool, allocate, release
from steptime.train.parallel.stages import StageModel
from steptime.workloads.mesh import TENSOR
from steptime.workloads.stage import Stage
from steptime.workloads.tensor import in_parts

_TABLE_TAG = 2


class StageSums:
    """Moves the gradients and parameters of one rank of a stage as its strategy says.

    It is told of every unit before and after it is computed, and takes the gradients that backward
    left in its parameters.
    """

    def __init__(
        self,
        model: StageModel,
        stage: Stage,
        pools: tuple[LivePool, ...],
        strategy: Strategy,
        axes: Axes,
        lines: Lines,
    ) -> None:
        self.pools = pools
        self._plan = stage.gradients
        self._strategy = strategy
        self._zero = strategy.zero or 0
        self._axes = axes
        self._lines = lines
        self._parameters = _by_unit(model, stage, pools)
        self._gathers = LiveGathers(visits(stage), pools, strategy) if self._zero == 3 else None
        self._fresh: set[int] = set()  # units without a gradient in this step
        self._done: set[int] = set()  # units whose gradients can be reduced
        self._unreduced: list[list[LiveBucket]] = []
        self._ready: list[LiveBucket] = []  # those of stage 3 to be reduced next
        self._reducing: list[tuple[LiveBucket, list[Work]]] = []
        self._summed: set[int] = set()  # ids of sharded buckets with a sum of this step
        self._sharing: list[tuple[LiveBucket, list[Work]]] = []

    @property
    def buckets(self) -> Iterator[LiveBucket]:
        """Those of all pools, in order."""
        return (bucket for pool in self.pools for bucket in pool.buckets)

    def begin(self) -> None:
        """Start a step."""
        self._fresh = set(range(len(self._plan.units)))
        self._summed.clear()
        self._expect()
        if self._gathers:
            self._gathers.begin()

    def before(self, unit: int) -> None:
        """A unit is about to be computed: wait for its parameters."""
        if self._gathers:
            self._reduce_ready()
            self._gathers.before()
        for bucket, works in self._sharing:
            if bucket.first <= unit <= bucket.last:
                _wait(works)

    def computed(self, unit: int, *, complete: bool, final: bool) -> None:
        """A unit was computed, and its gradients of this micro-batch may be ``complete``.

        ``final``: whether this was the last micro-batch.
        """
        if self._gathers:
            self._gathers.computed()
        if not complete:
            return
        self._take(unit)
        if self._zero == 3:
            self._ready += [bucket for bucket in self.buckets if bucket.first == unit]
        elif self._strategy.overlapped and (final or self._zero == 2):
            self._done.add(unit)
            self._reduce_done()
            if len(self._done) == len(self._plan.units):
                self._expect()

    def finish(self) -> None:
        """Block until the gradients that this rank owns are summed."""
        if self._strategy.overlapped:
            self._reduce_ready()
        else:
            for bucket in self.buckets:
                self._reduce(bucket)
        self._complete()
        self._sum_tables()
        self._sum_unsplit()

    def squared_norm(self) -> Tensor:
        """Sum of squares of the whole gradient, over all ranks, shape (), fp64."""
        total = torch.stack([bucket.squared_norm() for bucket in self.buckets]).sum()
        sizes = self._axes.mesh.sizes
        axes = (name for name in self._plan.norm_axes if sizes[name] > 1)
        if comm := self._axes.comm(*axes):
            comm.all_reduce(total).wait()
        return total

    def update(self, learning_rate: float, divisor: Tensor | None) -> None:
        """Update what this rank owns, bucket by bucket, and send it to those who need it."""
        self.settle()  # what the step before sent has arrived by now, and is forgotten here
        for bucket in self.buckets:
            bucket.optimizer.update(0, learning_rate, divisor)
            if bucket.comm:
                works = list(self._strategy.share(bucket.comm, bucket.flat.parameters))
                self._sharing.append((bucket, works))
        if not self._strategy.overlapped:
            self.settle()

    def settle(self) -> None:
        """Block until this rank has all parameters that others update."""
        for _, works in self._sharing:
            _wait(works)
        self._sharing.clear()

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """In the block, between two steps, all parameters of the stage are there."""
        self.settle()
        if self._gathers:
            self._gathers.gather_all()
        try:
            yield
        finally:
            if self._gathers:
                self._gathers.release_all()

    def _expect(self) -> None:
        self._done.clear()
        self._unreduced = [list(pool.buckets) for pool in self.pools]

    def _take(self, unit: int) -> None:
        """Add the gradients that backward left to those of the micro-batches before."""
        for bucket, slot, parameter in self._parameters[unit]:
            if self._zero >= 2:
                self._open(bucket)
            into, found = bucket.flat.gradient_of(slot), parameter.grad
            if unit not in self._fresh and self._zero < 2:
                if found is not None:
                    into.add_(found)
            elif found is None:  # of an expert to which no token went
                into.zero_()
            else:
                into.copy_(found)
            parameter.grad = None
        self._fresh.discard(unit)

    def _open(self, bucket: LiveBucket) -> None:
        """Have memory for the gradients of a bucket, which the sum before may still be using."""
        if any(other is bucket for other, _ in self._reducing):
            self._complete()
        if allocate(bucket.flat.gradients):
            bucket.flat.gradients[bucket.flat.layout.slots[-1].span.stop :].zero_()

    def _reduce_done(self) -> None:
        """Reduce the buckets of each pool, from the last on, whose units are all done."""
        for unreduced in self._unreduced:
            while unreduced and self._done.issuperset(
                range(unreduced[-1].first, unreduced[-1].last + 1)
            ):
                self._reduce(unreduced.pop())

    def _reduce_ready(self) -> None:
        for bucket in self._ready:
            self._reduce(bucket)
        self._ready.clear()

    def _reduce(self, bucket: LiveBucket) -> None:
        works: list[Work] = []
        if bucket.comm:
            works += self._strategy.reduce(bucket.comm, bucket.flat.gradients)
        self._reducing.append((bucket, works))

    def _complete(self) -> None:
        """Wait for the sums under way; where gradients are sharded, keep but the own shard."""
        for bucket, works in self._reducing:
            _wait(works)
            if self._zero >= 2:
                own = bucket.flat.gradients[bucket.owned.slice]
                if id(bucket) in self._summed:
                    bucket.own.gradients.add_(own)
                else:
                    bucket.own.gradients.copy_(own)
                self._summed.add(id(bucket))
                release(bucket.flat.gradients)
        self._reducing.clear()

    def _sum_tables(self) -> None:
        """Add the gradients of the tied table's two copies, on the first and the last stage."""
        table, pool = self._plan.table, self.pools[0]
        if table is None or pool.plan.table is None:
            return
        own = pool.buckets[pool.plan.table].own.gradients
        theirs = torch.empty_like(own)
        sent = self._lines.send(own, table.by, _TABLE_TAG)
        self._lines.receive(theirs, table.by, _TABLE_TAG).wait()
        sent.wait()
        own += theirs

    def _sum_unsplit(self) -> None:
        """Sum gradients of unsplit parameters of which each tensor-parallel rank has a part.

        Of these a rank puts in what it owns: where they are sharded, others own the rest.
        """
        comm, parallel = self._axes.comm(TENSOR), self._plan.sequence_parallel
        if comm is None or not self._plan.unsplit:
            return
        total = next(self.buckets).own.gradients.new_zeros(self._plan.unsplit)
        parts, at = [], 0
        for bucket in self.buckets:
            parts += [(own, at + start) for own, start in _in_parts(bucket, parallel)]
            at += sum(
                s.size for s in bucket.shards if in_parts(s.tensor, sequence_parallel=parallel)
            )
        for own, start in parts:
            total[start : start + len(own)] = own
        comm.all_reduce(total).wait()
        for own, start in parts:
            own.copy_(total[start : start + len(own)])


def _in_parts(bucket: LiveBucket, sequence_parallel: bool) -> Iterator[tuple[Tensor, int]]:
    """The owned gradients that tensor-parallel ranks add up, and where each begins among these."""
    starts, at = {}, 0
    for slot, shard in zip(bucket.flat.layout.slots, bucket.shards, strict=True):
        if in_parts(shard.tensor, sequence_parallel=sequence_parallel):
            starts[slot.name] = at - slot.offset
            at += shard.size
    for slot in bucket.own.layout.slots:
        if slot.name in starts:
            yield bucket.own.gradients[slot.span.slice], starts[slot.name] + slot.offset


def _by_unit(
    model: nn.Module, stage: Stage, pools: tuple[LivePool, ...]
) -> list[list[tuple[LiveBucket, Slot, nn.Parameter]]]:
    """Of each unit of a stage the parameters, and where their gradients lie."""
    named = dict(model.named_parameters())
    found: list[list[tuple[LiveBucket, Slot, nn.Parameter]]] = [[] for _ in stage.gradients.units]
    for pool in pools:
        for bucket, held in zip(pool.buckets, pool.plan.held, strict=True):
            for slot, (unit, _, _) in zip(bucket.flat.layout.slots, held, strict=True):
                found[unit].append((bucket, slot, named[slot.name]))
    return found


def _wait(works: list[Work]) -> None:
    """Wait for works, once."""
    for work in works:
        work.wait()
    works.clear()
