"""Data parallelism: one step of a model under a gradient-sync strategy, as ``train`` runs it.

The collectives are those of the live training: the same calls over the same buckets in the same
order.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from math import inf

import numpy as np

from steptime.errors import UsageError
from steptime.program import Collective, Compute, Kernel, Op, Program, Wait
from steptime.timeline import Phase
from steptime.workloads.buckets import Bucket, by_unit, cut_units
from steptime.workloads.gathers import Gathers, needed
from steptime.workloads.listing import collectives, share_behind_forward
from steptime.workloads.models import Model, Transformer, Unit
from steptime.workloads.part_kernels import Share, part_kernels
from steptime.workloads.pipelines import Kind
from steptime.workloads.precision import element_bytes, update_bytes
from steptime.workloads.products import in_two_dtypes, products_dtype
from steptime.workloads.sync import Calls, Sync, sync_named

AXIS = "data"


def data_parallel(
    model: Model,
    strategy: str,
    *,
    ranks: int,
    batch: int = 32,
    context: int | None = None,
    accumulate: int = 1,
    dtype: str = "fp32",
    reduce_dtype: str = "fp32",
    bucket_bytes: int = 25 << 20,
    clip: bool = True,
    compute_s: float | None = None,
    update_s: float | None = None,
    dedicated_server: bool = False,
    products: str | None = None,
) -> Program:
    """One step of ``model`` on ``ranks`` ranks along the axis ``data``, named after the strategy.

    ``batch`` rows of ``context`` tokens, of all ranks together, in ``accumulate`` micro-batches; of
    a model that has no rows, ``batch`` samples; computed in ``dtype``, the products of blocks in
    ``products`` where that is another, and gradients reduced in ``reduce_dtype``, in buckets of
    ``bucket_bytes`` where the strategy overlaps, and of one unit each under ``zero3``, which
    gathers and reduces unit by unit. With ``clip`` the norm of the whole gradient is computed.

    Forward and backward of a rank take ``compute_s`` seconds, shared out by FLOP; by default what
    their FLOP take, or the memory traffic of the weights where that is longer. The update of what
    a rank owns, its norm included, takes ``update_s`` seconds or, by default, what its memory
    traffic takes. A ``dedicated_server`` is the last rank, which has no rows and only serves.

    Raises UsageError where the batch does not divide, there is no such strategy or dtype, a number
    is below 1, or a server is asked for that the strategy does not have.
    """
    sync = sync_named(strategy)
    if dedicated_server and sync.updates != "root":
        raise UsageError(f"the strategy {strategy} has no server: only that of this name has")
    workers = ranks - dedicated_server
    _check_counts({"ranks": workers, "rows": batch, "micro-batches": accumulate})
    _check_seconds({"compute_s": compute_s, "update_s": update_s})
    if bucket_bytes < 1:
        raise UsageError(f"a bucket of {bucket_bytes} bytes is none: it must hold at least 1")
    laid_out = model.padded()
    plan = _Plan(
        units=laid_out.units,
        buckets=_buckets(sync, laid_out.units, ranks, bucket_bytes // element_bytes(reduce_dtype)),
        sync=sync,
        ranks=ranks,
        root=ranks - 1 if dedicated_server else 0,
        tokens=_rows(batch, workers, accumulate) * model.row(context),
        row=model.row(context),
        accumulate=accumulate,
        dtype=dtype,
        products=products,
        reduce_dtype=reduce_dtype,
        clip=clip,
        compute_s=compute_s,
        update_s=update_s,
        tied=isinstance(laid_out, Transformer) and laid_out.architecture.tied,
    )
    return _program(plan, strategy, root_computes=not dedicated_server)


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What the ops of a step are made of; ``tokens`` of a rank's micro-batch."""

    units: tuple[Unit, ...]
    buckets: tuple[Bucket, ...]
    sync: Sync
    ranks: int
    root: int
    tokens: int
    row: int
    accumulate: int
    dtype: str
    products: str | None
    reduce_dtype: str
    clip: bool
    compute_s: float | None
    update_s: float | None
    tied: bool


def _buckets(sync: Sync, units: tuple[Unit, ...], ranks: int, elements: int) -> tuple[Bucket, ...]:
    """What is reduced at a time: ``elements`` where the strategy overlaps, or all, or a unit."""
    if sync.zero == 3:
        return by_unit(units, ranks)
    return cut_units(units, ranks, elements if sync.overlapped else None)


def _program(plan: _Plan, name: str, *, root_computes: bool) -> Program:
    """The step of all ranks, among which a root that updates does more than the others."""
    lists: tuple[tuple[Op, ...], ...] = (_ops(plan, is_root=True, computes=root_computes),)
    if plan.sync.updates == "root" and plan.ranks > 1:
        lists = (_ops(plan, is_root=False, computes=True), *lists)
    class_of = np.zeros(plan.ranks, np.int32)
    class_of[plan.root] = len(lists) - 1
    return Program(name=name, axes={AXIS: plan.ranks}, lists=lists, class_of=class_of)


def _check_counts(counts: Mapping[str, int]) -> None:
    for name, count in counts.items():
        if count < 1:
            raise UsageError(f"the number of {name} to compute with is {count}: it must be above 0")


def _check_seconds(given: Mapping[str, float | None]) -> None:
    for name, seconds in given.items():
        if seconds is not None and not 0 <= seconds < inf:
            raise UsageError(f"{name} is {seconds}: it must be a number of seconds from 0 up")


def _rows(batch: int, workers: int, accumulate: int) -> int:
    step = workers * accumulate
    if batch % step:
        nearest = max(step, round(batch / step) * step)
        raise UsageError(
            f"a batch of {batch} does not divide among {workers} ranks of {accumulate} "
            f"micro-batches; the nearest that does is {nearest}"
        )
    return batch // step


def _ops(plan: _Plan, *, is_root: bool, computes: bool) -> tuple[Op, ...]:
    """The step of one rank, in the order in which the training calls it."""
    if plan.sync.zero == 3:
        return _fully_sharded(plan)
    ops: list[Op] = []
    reduced: list[int] = []
    last = len(plan.units) - 1
    for micro_batch in range(plan.accumulate):
        reduces = micro_batch == plan.accumulate - 1 or plan.sync.zero == 2
        unreduced = list(enumerate(plan.buckets)) if reduces else []
        if computes:
            ops += (one for unit in plan.units for one in _computes(plan, "forward", unit))
        for place in range(last, -1, -1):
            if computes:
                ops += _computes(plan, "backward", plan.units[place])
            done = (len(ops) - 1,) if computes else ()
            while unreduced:
                number, bucket = unreduced[-1]
                if bucket.first < place:
                    break
                unreduced.pop()
                for op in _calls(plan, plan.sync.reduce, number, plan.reduce_dtype):
                    reduced.append(len(ops))
                    ops.append(replace(op, after=done))
    shared = _update(plan, ops, tuple(reduced), is_root=is_root)
    if plan.sync.overlapped:
        units = range(len(plan.units))
        share_behind_forward(ops, zip(units, units, strict=True), shared)
    elif shared:
        ops.append(Wait(name="parameters", after=tuple(place for _, _, place in shared)))
    return tuple(ops)


def _fully_sharded(plan: _Plan) -> tuple[Op, ...]:
    """The step of each rank where a unit's parameters are there only while it is computed."""
    ops: list[Op] = []
    gathers = Gathers(ops)
    places = range(len(plan.units))

    def calls(made: Calls, dtype: str, units: set[int]) -> Iterator[Collective]:
        for number, bucket in enumerate(plan.buckets):
            if bucket.first in units:
                yield from _calls(plan, made, number, dtype)

    for _ in range(plan.accumulate):
        orders: tuple[tuple[Kind, Iterable[int]], ...] = (
            ("forward", places),
            ("backward", reversed(places)),
        )
        for direction, order in orders:
            for place in order:
                forward = direction == "forward"
                wanted = needed(place, places[-1], forward=forward, tied=plan.tied)
                there = gathers.before(calls(plan.sync.gather, plan.dtype, wanted))
                first, *others = _computes(plan, direction, plan.units[place])
                ops += (replace(first, after=there), *others)
                ready = set() if forward else {place}
                sums = calls(plan.sync.reduce, plan.reduce_dtype, ready)
                gathers.computed(len(ops) - 1, sums)
    _update(plan, ops, gathers.finish(), is_root=False)
    gathers.follow(len(ops) - 1)
    return tuple(ops)


def _computes(plan: _Plan, direction: Kind, unit: Unit) -> tuple[Compute, ...]:
    """Forward or backward of one unit for one micro-batch."""
    passes = 1 if direction == "forward" else 2
    flops = passes * plan.tokens * unit.forward_flops(plan.row)
    everything = 3 * plan.tokens * sum(unit.forward_flops(plan.row) for unit in plan.units)
    weights = sum(part.multiplied for part in unit.parts) * element_bytes(plan.dtype)
    op = Compute(
        name=f"{direction} {unit.name}",
        seconds=None
        if plan.compute_s is None
        else plan.compute_s * flops / everything / plan.accumulate,
        flops=flops,
        nbytes=passes * weights,
        dtype=plan.dtype,
        kernels=() if plan.compute_s is not None else _kernels(plan, direction, unit),
    )
    scores = passes * plan.tokens * sum(part.score_flops(plan.row) for part in unit.parts)
    return in_two_dtypes(op, products_dtype(plan.products, plan.dtype, unit.parts), scores)


def _kernels(plan: _Plan, direction: Kind, unit: Unit) -> tuple[Kernel, ...]:
    """Those of all parts of a unit, none where one does not tell its own."""
    share = Share(
        tokens=plan.tokens,
        held=plan.tokens,
        rows=plan.tokens // plan.row,
        row=plan.row,
        tensor=1,
        dtype=plan.dtype,
    )
    found = [part_kernels(part, share, direction) for part in unit.parts]
    return tuple(chain.from_iterable(found)) if all(found) else ()


def _calls(plan: _Plan, calls: Calls, number: int, dtype: str) -> Iterator[Collective]:
    """The collectives that a bucket takes."""
    words = (str(number) if len(plan.buckets) > 1 else "",)
    elements = plan.buckets[number].elements
    for one in collectives(calls, elements, plan.ranks, words=words, group=(AXIS,), dtype=dtype):
        yield replace(one, root=(plan.root + one.root) % plan.ranks)


def _update(
    plan: _Plan, ops: list[Op], reduced: tuple[int, ...], *, is_root: bool
) -> list[tuple[int, int, int]]:
    """Append norm, update and sharing; the first and last unit of each share, and its place."""
    sync = plan.sync
    owned = [sync.owned(bucket.elements, plan.ranks, is_root=is_root) for bucket in plan.buckets]
    per_element = update_bytes(plan.dtype)
    of_norm = element_bytes(plan.reduce_dtype) if plan.clip else 0
    everything = sum(owned) * (per_element + of_norm)

    def work(name: str, nbytes: int, after: tuple[int, ...]) -> Compute:
        seconds = None if plan.update_s is None else plan.update_s * nbytes / max(everything, 1)
        return Compute(
            name=name,
            seconds=seconds,
            nbytes=nbytes,
            dtype="fp32",
            phase=Phase.UPDATE,
            after=after,
        )

    before = reduced
    if plan.clip:
        ops.append(work("norm", sum(owned) * of_norm, before))
        before = ()
        if plan.ranks > 1 and sync.updates != "all":
            ops.append(_norm_of_all(len(ops) - 1))
            before = (len(ops) - 1,)
    shared: list[tuple[int, int, int]] = []
    for number, elements in enumerate(owned):
        if elements:
            ops.append(work("update", elements * per_element, before))
            before = ()
        after = (len(ops) - 1,) if elements else before
        bucket = plan.buckets[number]
        for share in _calls(plan, sync.share, number, plan.dtype):
            shared.append((bucket.first, bucket.last, len(ops)))
            ops.append(replace(share, after=after))
    return shared


def _norm_of_all(norm: int) -> Collective:
    """The squares of all ranks' gradients, added in fp64."""
    return Collective(
        name="norm", kind="all_reduce", group=(AXIS,), nbytes=8, dtype="fp64", after=(norm,)
    )
