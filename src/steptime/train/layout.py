"""Layout: where each parameter lies in the flat buffers, and how those are cut into buckets."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from steptime.strategies import Span
from steptime.workloads.buckets import cut


@dataclass(frozen=True)
class Slot:
    """One parameter's place in the flat buffer.

    ``offset``: its place without padding, the same for any strategy and world size.
    """

    name: str
    shape: tuple[int, ...]
    span: Span
    offset: int


@dataclass(frozen=True)
class Layout:
    """All parameters in forward order, cut into buckets that the ranks can divide equally."""

    slots: tuple[Slot, ...]
    buckets: tuple[Span, ...]

    @property
    def size(self) -> int:
        """Elements of a flat buffer, padding included."""
        return self.buckets[-1].stop

    def slots_in(self, span: Span) -> Iterator[tuple[Slot, Span]]:
        """Every slot that overlaps ``span``, with the overlap."""
        for slot in self.slots:
            part = slot.span.overlap(span)
            if len(part):
                yield slot, part

    def bucket_of(self, slot: Slot) -> int:
        """Index of the bucket that holds ``slot``."""
        return next(i for i, bucket in enumerate(self.buckets) if slot.span.start < bucket.stop)


def plan_layout(
    tensors: Sequence[tuple[str, tuple[int, ...]]], ranks: int, bucket_elements: int | None
) -> Layout:
    """The layout of tensors (name, shape), in one bucket, or in several as ``cut`` makes them."""
    sizes = [prod(shape) for _, shape in tensors]
    slots, buckets, start, offset = [], [], 0, 0
    for bucket in cut(sizes, ranks, bucket_elements):
        at = start
        for number in range(bucket.first, bucket.last + 1):
            slots.append(Slot(*tensors[number], Span(at, at + sizes[number]), offset))
            at += sizes[number]
            offset += sizes[number]
        buckets.append(Span(start, start + bucket.elements))
        start += bucket.elements
    return Layout(tuple(slots), tuple(buckets))
