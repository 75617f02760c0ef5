"""Gradients at the end of a step: summed over replicas, parameters updated and shared."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from steptime.program import PIPELINE, Collective, Compute, Op, Recv, Send, Wait
from steptime.program.program import After
from steptime.timeline import Phase
from steptime.workloads.gathers import Gathers, needed
from steptime.workloads.listing import add, collectives, share_behind_forward
from steptime.workloads.mesh import DATA, TENSOR
from steptime.workloads.pools import Gradients, Pool
from steptime.workloads.precision import element_bytes, update_bytes
from steptime.workloads.sync import Calls

_TABLE_TAG = 2


class Summing:
    """Appends to the ``ops`` of a step the calls that its gradients need.

    It is told of every unit before and after it is computed.
    """

    def __init__(self, plan: Gradients, ops: list[Op]) -> None:
        self._plan = plan
        self._ops = ops
        self._gathers = Gathers(ops)
        self._first: dict[int, int] = {}  # where each unit is computed for the first time
        self._done: set[int] = set()
        self._unreduced = [list(enumerate(pool.buckets)) for pool in plan.pools]
        self._reduced: After = ()

    def before(self, unit: int, *, forward: bool) -> After:
        """Note that a unit is about to be computed; returns the ops that it must wait for."""
        plan = self._plan
        if plan.sync.zero < 3:
            return ()
        units = needed(unit, len(plan.units) - 1, forward=forward, tied=plan.tied)
        return self._gathers.before(self._calls(plan.sync.gather, plan.dtype, units))

    def computed(self, unit: int, begin: int, place: int, *, final: bool, complete: bool) -> None:
        """Note that a unit was computed, from the op at ``begin`` to that at ``place``.

        ``complete``: whether its gradients of this micro-batch are complete; ``final``: whether
        this was the last micro-batch.
        """
        self._first.setdefault(unit, begin)
        sync = self._plan.sync
        if sync.zero == 3:
            units = {unit} if complete else set()
            sums = self._calls(sync.reduce, self._plan.reduce_dtype, units)
            self._gathers.computed(place, sums)
        elif sync.overlapped and complete and (final or sync.zero == 2):
            self._done.add(unit)
            self._reduce_done(place)
            if len(self._done) == len(self._plan.units):
                self._done.clear()
                self._unreduced = [list(enumerate(pool.buckets)) for pool in self._plan.pools]

    def _reduce_done(self, place: int) -> None:
        """Reduce the buckets, from the last on, whose units are all done."""
        for pool, unreduced in zip(self._plan.pools, self._unreduced, strict=True):
            while unreduced and self._done.issuperset(
                range(unreduced[-1][1].first, unreduced[-1][1].last + 1)
            ):
                number, _ = unreduced.pop()
                self._reduce(pool, number, (place,))

    def _reduce(self, pool: Pool, number: int, after: After) -> None:
        sync, dtype = self._plan.sync, self._plan.reduce_dtype
        for one in _of_bucket(pool, sync.reduce, dtype, number):
            self._reduced = add(self._ops, replace(one, after=after))

    def _calls(self, calls: Calls, dtype: str, units: set[int]) -> Iterator[Collective]:
        """The collectives of the buckets that begin with these units."""
        for pool in self._plan.pools:
            for number, bucket in enumerate(pool.buckets):
                if bucket.first in units:
                    yield from _of_bucket(pool, calls, dtype, number)

    def finish(self, after: After) -> None:
        """Append all ops that follow the last backward, which ends at ``after``."""
        sync = self._plan.sync
        if sync.zero == 3:
            after = self._gathers.finish() or after
        else:
            if not sync.overlapped:
                for pool in self._plan.pools:
                    for number in range(len(pool.buckets)):
                        self._reduce(pool, number, after)
            after = self._sum_tables(self._reduced or after)
        self._update(self._norm(self._sum_unsplit(after)))

    def _sum_tables(self, after: After) -> After:
        """Add the gradients of the tied table's two copies, on the first and last stage.

        They have been reduced: of each a rank adds the part that it owns.
        """
        plan, pool = self._plan, self._plan.pools[0]
        if plan.table is None or pool.table is None:
            return after
        held = pool.buckets[pool.table].elements
        elements = plan.sync.owned(held, pool.ranks, is_root=False)
        by, nbytes = plan.table.by, elements * element_bytes(plan.reduce_dtype)
        places: After = ()
        for end, name in ((Send, "send table"), (Recv, "receive table")):
            message = end(
                name=name, axis=PIPELINE, by=by, nbytes=nbytes, tag=_TABLE_TAG, stream=name
            )
            places += add(self._ops, replace(message, after=after))
        return places

    def _sum_unsplit(self, after: After) -> After:
        """Sum gradients of which tensor-parallel ranks have a part each."""
        plan = self._plan
        elements = plan.unsplit
        if not elements:
            return after
        total = Collective(
            name="unsplit",
            kind="all_reduce",
            group=(TENSOR,),
            nbytes=elements * element_bytes(plan.reduce_dtype),
            dtype=plan.reduce_dtype,
            stream=TENSOR,
            after=after,
        )
        return after + add(self._ops, total)

    def _norm(self, after: After) -> After:
        """The norm of the whole gradient: every rank's squares, summed over all that differ."""
        plan = self._plan
        if not plan.clip:
            return after
        owned = sum(sum(self._owned(pool).values()) for pool in plan.pools)
        norm = owned * element_bytes(plan.reduce_dtype)
        after = add(self._ops, Compute(name="norm", nbytes=norm, phase=Phase.UPDATE, after=after))
        group = plan.mesh.group(*plan.norm_axes)
        if plan.mesh.members(*group) > 1:
            norm_of_all = Collective(
                name="norm",
                kind="all_reduce",
                group=group,
                nbytes=8,
                dtype="fp64",
                stream=DATA,
                after=after,
            )
            after = add(self._ops, norm_of_all)
        return after

    def _owned(self, pool: Pool) -> Mapping[int, int]:
        """How many elements of each bucket a rank updates."""
        sync = self._plan.sync
        return {
            number: sync.owned(bucket.elements, pool.ranks, is_root=False)
            for number, bucket in enumerate(pool.buckets)
        }

    def _update(self, after: After) -> None:
        """Update the parameters that a rank owns, bucket by bucket, and share them."""
        plan, ops = self._plan, self._ops
        per_element = update_bytes(plan.dtype)
        shared: list[tuple[int, int, int]] = []  # first and last unit, and where they are shared
        waited: After = ()
        for pool in plan.pools:
            for number, elements in self._owned(pool).items():
                nbytes = elements * per_element
                update = Compute(name="update", nbytes=nbytes, phase=Phase.UPDATE, after=after)
                after = add(ops, update)
                for share in _of_bucket(pool, plan.sync.share, plan.dtype, number):
                    (place,) = add(ops, replace(share, after=after))
                    shared.append((pool.buckets[number].first, pool.buckets[number].last, place))
                    waited += (place,)
        if plan.sync.zero == 3:
            self._gathers.follow(*after)
        elif plan.sync.overlapped:
            share_behind_forward(ops, self._first.items(), shared)
        elif waited:
            ops.append(Wait(name="parameters", after=waited))


def _of_bucket(pool: Pool, calls: Calls, dtype: str, number: int) -> Iterator[Collective]:
    """The collectives of one bucket."""
    words = (pool.name, str(number) if len(pool.buckets) > 1 else "")
    elements = pool.buckets[number].elements
    return collectives(
        calls, elements, pool.ranks, words=words, group=pool.axes, dtype=dtype, stream=DATA
    )
