"""The state of a rank that holds a part of a model, as checkpoints of any layout read and write."""

from collections.abc import Iterator

from steptime.train.keeping.pieces import Part
from steptime.train.keeping.state import Owned, State, Target
from steptime.train.keeping.state_file import FIELDS
from steptime.train.parallel.axes import Axes
from steptime.train.parallel.pools import LiveBucket
from steptime.train.parallel.shard import Shard
from steptime.workloads.mesh import TENSOR
from steptime.workloads.models import Transformer

_TABLES = ("embedding.wte", "head.weight")
_COPY = "head.wte"


def state_of_buckets(
    buckets: Iterator[LiveBucket], model: Transformer, axes: Axes, *, sharded: bool
) -> State:
    """What a checkpoint needs of this rank, and what this rank needs of one.

    ``model``: the whole, its vocabulary not yet padded. ``sharded``: parameters are there only
    while they are needed, but for those that a rank owns.
    """
    words = model.padded().vocabulary
    owned, computed = list[Owned](), list[Target]()
    for bucket in buckets:
        slots = bucket.flat.layout.slots
        part_of = {
            slot.name: _part(shard, words) for slot, shard in zip(slots, bucket.shards, strict=True)
        }
        for slot in () if sharded else slots:
            if part := part_of[slot.name]:
                tensor = bucket.flat.parameters[slot.span.slice][: part.size]
                computed.append(Target(part, 0, tensor))
        stretches = bucket.flat.layout.slots_in(bucket.owned)
        for (slot, stretch), segment in zip(stretches, bucket.optimizer.segments[0], strict=True):
            part, start = part_of[slot.name], stretch.start - slot.span.start
            if part is None or (length := min(len(stretch), part.size - start)) <= 0:
                continue
            fields = {field: getattr(segment, field)[:length] for field in FIELDS}
            split = dict(zip((s.name for s in slots), bucket.shards, strict=True))[slot.name]
            written = slot.name != _COPY and _is_first(bucket, split, axes)
            owned.append(Owned(part, start, fields, segment.step, written))
            if sharded:
                computed.append(Target(part, start, segment.compute[:length]))
    return State(owned, computed)


def _part(shard: Shard, words: int) -> Part | None:
    """A rank's part of a tensor as one rank alone pads it; None where it has padding alone."""
    shape, boxes = shard.tensor.shape, shard.boxes
    found = [[(part.start, part.stop) for part in box] for box in boxes]
    if shard.tensor.name in _TABLES:
        shape = (words, *shape[1:])
        found = [[(a, min(b, words)), *rest] for (a, b), *rest in found if a < words]
    if not found:
        return None
    return Part(shard.tensor.name, shape, tuple(map(tuple, found)), shard.dim)


def _is_first(bucket: LiveBucket, shard: Shard, axes: Axes) -> bool:
    """Whether this rank is the first of those that own the same stretch of a tensor."""
    if not shard.tensor.split and axes.at[TENSOR]:
        return False
    everything = len(bucket.owned) == len(bucket.flat.parameters)
    return bucket.comm is None or not everything or bucket.comm.rank == 0
