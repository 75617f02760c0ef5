"""Live pools: a rank's parameters and gradients in flat buffers, bucket by bucket as planned.

``workloads.pools`` says which tensors are in which bucket, and which ranks sum it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from torch import Tensor, nn

from steptime.strategies import Span, Strategy
from steptime.train.flat import FlatModel, flat_weights, flatten, own_buffers
from steptime.train.layout import Layout, Slot
from steptime.train.optimizer import ShardedAdamW, sum_of_squares
from steptime.train.parallel.axes import Axes
from steptime.train.parallel.shard import Shard
from steptime.train.parallel.stages import StageModel, held_by_rank
from steptime.train.precision import Precision
from steptime.workloads.buckets import Bucket
from steptime.workloads.mesh import EXPERT, TENSOR
from steptime.workloads.models import Transformer
from steptime.workloads.pools import Gradients, Pool
from steptime.workloads.tensor import laid_out
from steptime.world.communicator import Communicator


@dataclass(frozen=True, eq=False, kw_only=True)
class LiveBucket:
    """A bucket of the units from ``first`` to ``last``, and the part of it that this rank owns.

    ``flat``: all of it, padding included; ``own``: the ``owned`` span, with its optimizer. They
    share memory, but for gradients that are sharded (ZeRO's stage 2) and parameters that are
    (stage 3): then the former's is there only while it is needed. ``shards``: for each slot, which
    part of the whole model it is. ``comm``: those who sum it; None where nobody else does.
    ``counted``: the spans of ``own`` that this rank adds to the norm of the whole gradient.
    """

    first: int
    last: int
    flat: FlatModel
    own: FlatModel
    owned: Span
    optimizer: ShardedAdamW
    shards: tuple[Shard, ...]
    counted: tuple[Span, ...]
    comm: Communicator | None

    def squared_norm(self) -> Tensor:
        """Sum of squares of the gradients that this rank counts, shape (), fp64."""
        total = torch.zeros((), dtype=torch.float64, device=self.own.gradients.device)
        for span in self.counted:
            total += sum_of_squares(self.own.gradients[span.slice])
        return total


@dataclass(frozen=True, kw_only=True)
class LivePool:
    """A pool of the plan, on this rank."""

    plan: Pool
    buckets: tuple[LiveBucket, ...]


def live_pools(
    model: StageModel,
    plan: Gradients,
    axes: Axes,
    strategy: Strategy,
    precision: Precision,
    weight_decay: float,
    seed: int,
) -> tuple[LivePool, ...]:
    """Move the parameters of a stage's model into flat buffers, as the ``plan`` cuts them.

    ``seed``: tells how weights are rounded by chance.
    """
    whole = laid_out(model.config, axes.mesh.tensor)
    starts = _starts(whole)
    made = []
    for pool in plan.pools:
        comm = axes.comm(*pool.axes)
        buckets = []
        tensors = held_by_rank(whole, plan, pool, axes)
        for planned, held in zip(pool.buckets, tensors, strict=True):
            flat, weights = _flat(model, planned, held, precision, starts)
            owned = Span(0, planned.elements)
            if comm:
                owned = strategy.owned(owned, comm.rank, comm.ranks)
            of_owned = weights[owned.slice], [Span(0, len(owned))]
            own = _owned_part(flat, owned, strategy.zero or 0)
            shards = tuple(shard for _, shard in held)
            bucket = LiveBucket(
                first=planned.first,
                last=planned.last,
                flat=flat,
                own=own,
                owned=owned,
                optimizer=ShardedAdamW(own, *of_owned, weight_decay, precision, seed),
                shards=shards,
                counted=tuple(_counted(plan, pool, axes, own.layout, shards)),
                comm=comm,
            )
            buckets.append(bucket)
        made.append(LivePool(plan=pool, buckets=tuple(buckets)))
    return tuple(made)


def _starts(model: Transformer) -> Mapping[str, int]:
    """Where each tensor begins among all of the model's: the same on every rank that has it."""
    tensors = [tensor for unit in model.units for tensor in unit.tensors]
    ends = accumulate((tensor.size for tensor in tensors), initial=0)
    return {tensor.name: start for tensor, start in zip(tensors, ends, strict=False)}


def _flat(
    model: nn.Module,
    planned: Bucket,
    held: Sequence[tuple[str, Shard]],
    precision: Precision,
    starts: Mapping[str, int],
) -> tuple[FlatModel, Tensor]:
    """The buffers of a bucket, and its weights in fp32."""
    slots, at = [], 0
    for name, shard in held:
        span = Span(at, at + shard.size)
        slots.append(Slot(name, shard.shape, span, starts[shard.tensor.name]))
        at += shard.size
    layout = Layout(tuple(slots), (Span(0, planned.elements),))
    weights = flat_weights(model, layout)
    return flatten(model, layout, *own_buffers(weights, precision)), weights


def _owned_part(flat: FlatModel, owned: Span, zero: int) -> FlatModel:
    """The part of a bucket that a rank owns; slots are as long as what it owns of them."""
    slots = tuple(
        replace(
            slot,
            span=Span(part.start - owned.start, part.stop - owned.start),
            offset=slot.offset + part.start - slot.span.start,
        )
        for slot, part in flat.layout.slots_in(owned)
    )
    parameters, gradients = flat.parameters[owned.slice], flat.gradients[owned.slice]
    if zero == 3:
        parameters = parameters.clone()
        release(flat.parameters)
    if zero >= 2:
        gradients = gradients.clone()
        release(flat.gradients)
    return FlatModel(Layout(slots, (Span(0, len(owned)),)), parameters, gradients)


def _counted(
    plan: Gradients, pool: Pool, axes: Axes, own: Layout, shards: Sequence[Shard]
) -> Iterator[Span]:
    """The spans of owned gradients that no rank before this one counts too, put together.

    What every tensor-parallel rank has counts on the first; the tied table of two stages, which has
    the same gradient on both, on the first stage; and where all ranks along ``expert`` own all that
    they sum, on the first of them.
    """
    replicated = plan.sync.updates == "all" and EXPERT in pool.axes
    if replicated and axes.at[EXPERT]:
        return
    tensor_of = {shard.tensor.name: shard.tensor for shard in shards}
    start = stop = 0
    for slot in own.slots:
        copied = slot.name == "head.wte"
        split = copied or tensor_of[slot.name].split
        if copied or not (split or axes.at[TENSOR] == 0):
            continue
        if slot.span.start != stop:
            if stop > start:
                yield Span(start, stop)
            start = slot.span.start
        stop = slot.span.stop
    if stop > start:
        yield Span(start, stop)


def release(buffer: Tensor) -> None:
    """Give the memory of a buffer back, which keeps its shape: so do parameters that view it."""
    buffer.untyped_storage().resize_(0)


def allocate(buffer: Tensor) -> bool:
    """Give a released buffer memory again, with any content; whether it had none."""
    storage = buffer.untyped_storage()
    if storage.size():
        return False
    storage.resize_(buffer.numel() * buffer.element_size())
    return True
