"""The series of distances over which logarithmic algorithms send."""

from collections.abc import Iterator


def powers_below(ranks: int) -> list[int]:
    """1, 2, 4, … below ``ranks``: ⌈log₂ ranks⌉ of them."""
    return [1 << bit for bit in range((ranks - 1).bit_length())]


def largest_power(ranks: int) -> int:
    """The largest power of two that is at most ``ranks``."""
    return 1 << (ranks.bit_length() - 1)


def is_power(ranks: int) -> bool:
    """Whether ``ranks`` is a power of two."""
    return ranks == largest_power(ranks)


def halvings(ranks: int) -> Iterator[tuple[int, int]]:
    """Pairs (a, ⌈a/2⌉) from ``ranks`` down to 1: the skips of a circulant graph, ⌈log₂ ranks⌉.

    Träff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms" (arXiv 2410.14234).
    """
    while ranks > 1:
        half = (ranks + 1) // 2
        yield ranks, half
        ranks = half
