"""Where the ways of two ranks part: the first call of a group that they make at other places."""

from collections.abc import Sequence

from steptime.check.calls import Call, Calls
from steptime.check.words import called


def parting(calls: Calls, call: Call, other: int) -> tuple[Call, Call] | None:
    """The first calls, up to ``call``, that its rank and another make in its group at two places.

    None where there are none. That ranks make one collective at two lines, as under if and else, is
    no parting: neither line occurs on the other rank.
    """
    if call.key[2]:
        return None
    of_rank = calls.of_key[call.key]
    own, others = of_rank[call.rank], of_rank.get(other, ())
    here, there = _sites(own), _sites(others)
    for a, b in zip(own[: call.number], others, strict=False):
        if a.site != b.site and (a.site in there or b.site in here):
            return a, b
    return None


def parting_told(pair: tuple[Call, Call] | None) -> str:
    """Half a sentence about it; empty where there is none."""
    if pair is None:
        return ""
    a, b = pair
    return (
        f"; their ways part at call {a.number} of the group: rank {a.rank} makes {called(a)}, "
        f"rank {b.rank} {called(b)}"
    )


def _sites(calls: Sequence[Call]) -> set[object]:
    return {call.site for call in calls}
