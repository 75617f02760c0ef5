"""Gradient sync of a model whose layers are not all on the same ranks.

Where some layers are on every rank and others on a few, the gradients of each are reduced among
the ranks that hold a copy of it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby

from steptime.errors import UsageError
from steptime.program import Compute, Op, Wait
from steptime.program.program import After
from steptime.timeline import Phase
from steptime.workloads.listing import add, collectives, follow_step_before
from steptime.workloads.precision import update_bytes
from steptime.workloads.sync import Calls, Sync, strategies_of_many_axes, sync_named


def sync_of(strategy: str, model: str) -> Sync:
    """The calls of a strategy; raises UsageError where it is not for any group of ranks."""
    sync = sync_named(strategy)
    if not sync.symmetric or sync.zero > 1:
        *most, last = strategies_of_many_axes()
        raise UsageError(
            f"the strategy {strategy} is of ranks that hold the same layers, and {model} is on "
            f"different ones: choose {', '.join(most)} or {last}"
        )
    return sync


def samples_of(batch: int, shares: int, of: str, accumulate: int) -> int:
    """Samples of a micro-batch of each of so many ``of`` the batch is shared among.

    Raises UsageError where it cannot be.
    """
    step = shares * accumulate
    if batch % step:
        below = batch // step * step
        able = {below or step, below + step}
        raise UsageError(
            f"a batch of {batch} does not divide among {shares} {of} of {accumulate} "
            f"micro-batches: the nearest that does is {' or '.join(map(str, sorted(able)))}"
        )
    return batch // step


@dataclass(frozen=True)
class Copied:
    """Layers of which each of the ``ranks`` ranks along ``group`` holds all ``elements``."""

    name: str
    elements: int
    group: tuple[str, ...]
    ranks: int


@dataclass(frozen=True)
class _Filled:
    """Layers whose gradients are there ``after`` some op, and the place of their forward."""

    layers: Copied
    after: After
    forward: int


class Summing:
    """Appends to the ``ops`` of a rank what becomes of its gradients.

    An overlapped strategy reduces those of some layers when backward is done with them, any other
    all that go to the same ranks at once at the end. Each group of ranks has a stream of its own.
    Nothing is clipped: the references of the models that need this do not.

    Raises UsageError when there is no such dtype.
    """

    def __init__(self, ops: list[Op], sync: Sync, *, dtype: str, reduce_dtype: str) -> None:
        self._ops = ops
        self._sync = sync
        self._dtype = dtype
        self._reduce_dtype = reduce_dtype
        self._filled: list[_Filled] = []
        self._reduced: list[After] = []  # where the gradients of each are summed

    def fill(self, layers: Copied, *, after: After, forward: int) -> None:
        """Backward has ended with some layers; ``forward`` is the place of their first forward."""
        self._filled.append(_Filled(layers, after, forward))
        if self._sync.overlapped:
            self._reduce(self._filled[-1])

    def finish(self) -> None:
        """Append the update, with what must come before and after it; the step ends with it."""
        if not self._sync.overlapped:
            self._filled = list(_together(self._filled))
            for filled in self._filled:
                self._reduce(filled)
        every = list(zip(self._filled, self._reduced, strict=True))
        # What is gathered is needed from the first layer on; what is not, as it comes in.
        order = reversed(every) if self._sync.shares else every
        shared = [(filled.forward, self._update(filled, reduced)) for filled, reduced in order]
        waited = tuple(place for _, places in shared for place in places)
        if self._sync.overlapped:
            for forward, places in shared:
                follow_step_before(self._ops, forward, places)
        elif waited:
            self._ops.append(Wait(name="parameters", after=waited))

    def _reduce(self, filled: _Filled) -> None:
        calls, dtype = self._sync.reduce, self._reduce_dtype
        self._reduced.append(self._call(calls, filled.layers, dtype, filled.after))

    def _update(self, filled: _Filled, reduced: After) -> After:
        """Append the update of some layers; where its sharing is, if there is any."""
        layers = filled.layers
        owned = self._sync.owned(self._elements(layers), layers.ranks, is_root=False)
        update = Compute(
            name=f"update {layers.name}",
            nbytes=owned * update_bytes(self._dtype),
            phase=Phase.UPDATE,
            after=reduced,
        )
        updated = add(self._ops, update)
        return self._call(self._sync.share, layers, self._dtype, updated)

    def _elements(self, layers: Copied) -> int:
        """Elements that are moved: of a sharded strategy as many for each rank."""
        if not self._sync.shares:
            return layers.elements
        return -(-layers.elements // layers.ranks) * layers.ranks

    def _call(self, calls: Calls, layers: Copied, dtype: str, after: After) -> After:
        """Append the collectives of some layers; where they are."""
        places: After = ()
        for one in collectives(
            calls,
            self._elements(layers),
            layers.ranks,
            words=(layers.name,),
            group=layers.group,
            dtype=dtype,
            stream=f"gradients {'+'.join(layers.group)}",
        ):
            places += add(self._ops, replace(one, after=after))
        return places


def _together(filled: Iterable[_Filled]) -> Iterable[_Filled]:
    """One for each group of ranks, in the order in which the last gradients of each are there."""
    by_group = sorted(filled, key=lambda one: one.layers.group)
    merged = []
    for group, of_group in groupby(by_group, key=lambda one: one.layers.group):
        several = list(of_group)
        elements = sum(one.layers.elements for one in several)
        layers = Copied(f"along {'+'.join(group)}", elements, group, several[0].layers.ranks)
        last = max(several, key=lambda one: one.after)
        merged.append(_Filled(layers, last.after, last.forward))
    return sorted(merged, key=lambda one: one.after)
