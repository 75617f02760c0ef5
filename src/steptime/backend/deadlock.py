"""Deadlock: ranks that wait for each other in a circle, found from what each says it waits for."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Wait:
    """What a rank cannot go on without: ``rank`` waits for ``awaited`` in the call ``doing``.

    Ranks have the numbers by which errors call them.
    """

    rank: int
    awaited: tuple[int, ...]
    doing: str


def deadlock(rank: int, waits: Iterable[Wait]) -> str | None:
    """The circle in which ``rank`` waits, or some rank for which it waits, in words; else None.

    ``rank 0 waits for rank 1 in recv of float32[3] from rank 1, tag 0; rank 1 waits for rank 0 in
    …``, from the lowest rank of the circle on, so that all its ranks say the same.
    """
    of = defaultdict(list)
    for wait in waits:
        of[wait.rank].append(wait)
    circle = _circle(rank, of, [], set())
    if not circle:
        return None
    first = min(range(len(circle)), key=lambda place: circle[place][0].rank)
    return "; ".join(
        f"rank {wait.rank} waits for rank {other} in {wait.doing}"
        for wait, other in (*circle[first:], *circle[:first])
    )


def _circle(
    rank: int, of: Mapping[int, Sequence[Wait]], path: Sequence[tuple[Wait, int]], seen: set[int]
) -> Sequence[tuple[Wait, int]]:
    """Follow who waits for whom from ``path``, which leads to ``rank``, until it meets itself."""
    for place, (wait, _) in enumerate(path):
        if wait.rank == rank:
            return path[place:]
    if rank in seen:
        return ()
    seen.add(rank)
    steps = [(wait, other) for wait in of.get(rank, ()) for other in wait.awaited]
    return next(filter(None, (_circle(o, of, [*path, (w, o)], seen) for w, o in steps)), ())
