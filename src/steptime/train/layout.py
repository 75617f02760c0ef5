"""Where each parameter lies in the flat buffers, and how those are cut into buckets."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from steptime.workloads.buckets import cut


@dataclass(frozen=True)
class Span:
    """The elements from ``start`` up to, not including, ``stop`` of a flat buffer."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def share(self, index: int, count: int) -> "Span":
        """Part ``index`` of ``count`` equal parts; ``count`` divides the length."""
        size = len(self) // count
        return Span(self.start + index * size, self.start + (index + 1) * size)

    def overlap(self, other: "Span") -> "Span":
        """What both cover; empty where they do not meet."""
        start = max(self.start, other.start)
        return Span(start, max(start, min(self.stop, other.stop)))

    @property
    def slice(self) -> slice:
        """For indexing a 1-D tensor."""
        return slice(self.start, self.stop)


@dataclass(frozen=True)
class Slot:
    """One parameter's place in the flat buffer.

    ``offset`` is its place if nothing were padded, which no strategy and no world size changes.
    """

    name: str
    shape: tuple[int, ...]
    span: Span
    offset: int


@dataclass(frozen=True)
class Layout:
    """All parameters in forward order, cut into buckets that any rank count can share equally."""

    slots: tuple[Slot, ...]
    buckets: tuple[Span, ...]

    @property
    def size(self) -> int:
        """Elements of a flat buffer, padding included."""
        return self.buckets[-1].stop

    def slots_in(self, span: Span) -> Iterator[tuple[Slot, Span]]:
        """Every slot that ``span`` touches, and the part of it that lies in ``span``."""
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
    """Lay out tensors (name, shape) in one bucket, or in several as ``cut`` makes them."""
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
