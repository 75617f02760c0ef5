"""Bytes that one rank does not tell and another does, as of a scatter, which its root knows."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from steptime.record.traces.trace import Call, RankTrace

_Place = tuple[str, tuple[int, ...], str, int]


def with_told_bytes(ranks: Sequence[RankTrace]) -> list[RankTrace]:
    """The ranks, in which collectives have the bytes that any of their ranks tells.

    The n-th of a kind in a group is that of every other rank, where all made as many.
    """
    told: dict[_Place, int] = {}
    made: dict[tuple[str, tuple[int, ...], str], set[int]] = {}
    for one in ranks:
        counts: dict[tuple[str, tuple[int, ...], str], int] = {}
        for place, call in _placed(one):
            told[place] = max(told.get(place, 0), call.nbytes)
            counts[place[:3]] = place[3] + 1
        for key, count in counts.items():
            made.setdefault(key, set()).add(count)
    return [
        _filled(one, {at: of for at, of in told.items() if len(made[at[:3]]) == 1}) for one in ranks
    ]


def _filled(one: RankTrace, told: dict[_Place, int]) -> RankTrace:
    calls = [
        call if call.nbytes else call._replace(nbytes=told.get(place, 0))
        for place, call in _placed(one)
    ]
    return replace(one, calls=[*calls, *(call for call in one.calls if _is_message(call))])


def _placed(one: RankTrace) -> Iterator[tuple[_Place, Call]]:
    """The collectives of a rank, each with its number among those of its kind and group."""
    counts: dict[tuple[str, tuple[int, ...], str], int] = {}
    for call in one.calls:
        if _is_message(call):
            continue
        key = call.group.name, call.group.ranks, call.kind
        yield (*key, counts.get(key, 0)), call
        counts[key] = counts.get(key, 0) + 1


def _is_message(call: Call) -> bool:
    return call.kind in ("send", "recv")
