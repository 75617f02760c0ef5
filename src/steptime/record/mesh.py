"""The axes along which the ranks of a recorded job are laid out, told from its groups."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import TypeAlias

import numpy as np

from steptime.errors import UsageError
from steptime.record.read import Group, ProcessLog

WORLD = "world"
"""The axis of a job whose groups all hold every rank."""

ALONE = "alone"
"""The axis of size 1 along which groups of a single rank lie."""

_MOST_AXES = 6

Sizes: TypeAlias = tuple[int, ...]
Shift: TypeAlias = tuple[str, int]
"""An axis, and by how many places a message goes along it."""


@dataclass(frozen=True, eq=False)
class Mesh:
    """The ``axes`` of a job with their sizes, of which the first varies fastest.

    ``again``: an axis of size 1 for each group that has the ranks of another, by group. Calls match
    by their axes, and with this one those of two such groups do not mix.
    """

    axes: Mapping[str, int]
    again: Mapping[Group, str]

    def group(self, group: Group) -> tuple[str, ...]:
        """The axes along which the members of a group differ."""
        along = _along(tuple(self.axes.values()), group.ranks)
        assert along is not None  # noqa: S101  (``mesh_of`` has looked)
        names = tuple(self.axes)
        found = tuple(names[at] for at in along) or (ALONE,)
        return (*found, *([self.again[group]] if group in self.again else ()))

    def shift(self, here: int, there: int) -> Shift:
        """The axis along which two ranks differ, and by how many places, at most half of it."""
        names, sizes = tuple(self.axes), tuple(self.axes.values())
        one, other = (_coordinates(sizes, rank) for rank in (here, there))
        at = next((at for at in range(len(sizes)) if one[at] != other[at]), 0)
        by = (other[at] - one[at]) % sizes[at]
        return names[at], by if 2 * by <= sizes[at] else by - sizes[at]


def mesh_of(
    logs: Sequence[ProcessLog], called: Sequence[Group], pairs: Sequence[tuple[int, int]]
) -> Mesh:
    """The mesh with the fewest axes in which every group called is a row, a plane, and so on.

    ``pairs``: ranks that exchange messages, which must be in one row. Raises UsageError where there
    is no such mesh.
    """
    ranks = max(log.world_size for log in logs)
    groups = list(dict.fromkeys(called))
    sizes = next((one for one in _factors(ranks) if _fits(one, groups, pairs)), None)
    if sizes is None:
        raise UsageError(_no_mesh(ranks, groups, pairs))
    axes = dict(zip(_names(sizes, groups), sizes, strict=True))
    again = _again(groups)
    alone = [ALONE] if any(len(group.ranks) == 1 for group in groups) else []
    return Mesh({**axes, **dict.fromkeys([*alone, *again.values()], 1)}, again)


def _factors(ranks: int) -> Iterator[Sizes]:
    """All ways to write a number as a product of others, in order, the shortest first."""

    def split(rest: int, parts: int) -> Iterator[Sizes]:
        if parts == 1:
            yield (rest,)
            return
        for first in (one for one in range(2, rest // 2 + 1) if rest % one == 0):
            yield from ((first, *others) for others in split(rest // first, parts - 1))

    for parts in range(1, _MOST_AXES + 1):
        yield from split(ranks, parts)


def _fits(sizes: Sizes, groups: Sequence[Group], pairs: Sequence[tuple[int, int]]) -> bool:
    in_rows = all(
        sum(np.array(_coordinates(sizes, one)) != _coordinates(sizes, other)) <= 1
        for one, other in pairs
    )
    return in_rows and all(_along(sizes, group.ranks) is not None for group in groups)


def _coordinates(sizes: Sizes, rank: int) -> Sizes:
    return tuple(rank // prod(sizes[:at]) % size for at, size in enumerate(sizes))


def _along(sizes: Sizes, members: Sequence[int]) -> tuple[int, ...] | None:
    """The axes, by number, along which some ranks differ and are complete; None if they are not."""
    along = [{_coordinates(sizes, rank)[at] for rank in members} for at, size in enumerate(sizes)]
    found = tuple(at for at, places in enumerate(along) if len(places) > 1)
    complete = len(set(members)) == prod(sizes[at] for at in found) == len(members)
    return found if complete else None


def _names(sizes: Sizes, groups: Sequence[Group]) -> list[str]:
    """What the axes are called: as their groups are, where these have names of their own."""
    names = [WORLD] if len(sizes) == 1 else [f"axis{at}" for at in range(len(sizes))]
    for group in groups:
        along = _along(sizes, group.ranks) or ()
        if len(along) == 1 and group.axis and group.axis not in names:
            names[along[0]] = group.axis
    return names


def _again(groups: Sequence[Group]) -> dict[Group, str]:
    of_ranks: dict[tuple[int, ...], list[Group]] = {}
    for group in sorted(groups, key=lambda group: (group.name != "default_pg", group.name)):
        of_ranks.setdefault(tuple(sorted(group.ranks)), []).append(group)
    return {
        group: f"group {number}"
        for same in of_ranks.values()
        for number, group in enumerate(same[1:], 2)
    }


def _no_mesh(ranks: int, groups: Sequence[Group], pairs: Sequence[tuple[int, int]]) -> str:
    for group in groups:
        if not any(_fits(sizes, [group], []) for sizes in _factors(ranks)):
            return (
                f"the group {group.name} of the ranks {_listed(group.ranks)} is no row of a mesh "
                f"of {ranks} ranks, and no other group can be simulated or replayed: let it have "
                "as many ranks as its neighbours, in even steps"
            )
    for one, other in combinations(groups, 2):
        if not any(_fits(sizes, [one, other], []) for sizes in _factors(ranks)):
            return (
                f"the groups {one.name} of the ranks {_listed(one.ranks)} and {other.name} of "
                f"{_listed(other.ranks)} are not of one mesh, and no others can be simulated or "
                "replayed: let both be rows of one"
            )
    sender, receiver = pairs[0] if pairs else (0, 0)
    return (
        f"the {len(groups)} groups of this job, and messages as from rank {sender} to {receiver}, "
        "are not of one mesh, and no others can be simulated or replayed: send along its rows"
    )


def _listed(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:8]))
    return f"{shown}, …" if len(ranks) > 8 else shown
