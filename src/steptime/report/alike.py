"""Ranks that are alike, said and drawn once."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

One = TypeVar("One")

_MOST_SPANS = 3


def alike(items: Iterable[One], key: Callable[[One], Hashable]) -> list[list[One]]:
    """The items in groups of one key each, in the order of their first ones."""
    groups: dict[Hashable, list[One]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def ranks_text(ranks: Sequence[int]) -> str:
    """``rank 3``, ``ranks 0–3, 8–11``, or of many spans the first: ``16 ranks: 0, 2, 4 …``."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    spans: list[list[int]] = []
    for rank in sorted(ranks):
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    texts = [f"{a}" if a == b else f"{a}–{b}" for a, b in spans]
    if len(texts) > _MOST_SPANS:
        return f"{len(ranks):,} ranks: {', '.join(texts[:_MOST_SPANS])} …"
    return f"ranks {', '.join(texts)}"
