"""Span: a part of a flat buffer."""

from dataclasses import dataclass


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
