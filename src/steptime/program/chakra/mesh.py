"""Mesh: recover the axes along which ranks lie from the groups named in a trace."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from steptime.errors import UsageError
from steptime.program.program import Program

Group = tuple[int, ...]


def mesh(ranks: int, groups: Iterable[Group]) -> tuple[dict[str, int], Mapping[Group, Group]]:
    """The sizes of axes that all ``groups`` lie along, by name, and the axes of each group.

    The first axis varies fastest; they are called axis0, axis1, …, and a group's are given by their
    numbers. A group has its ranks in rising order.

    Raises UsageError when the groups do not fit one mesh.
    """
    distinct = sorted(set(groups), key=lambda group: (len(group), group))
    edges = {1, ranks}
    spans = {group: _spans(group) for group in distinct}
    for spanned in spans.values():
        edges |= {edge for span in spanned for edge in span}
    strides = sorted(edges)
    if any(after % before for before, after in pairwise(strides)):
        raise UsageError(
            f"its groups divide {ranks} ranks at {', '.join(map(str, strides))}, which do not "
            "divide each other: they lie along no common axes"
        )
    axes = {f"axis{i}": after // before for i, (before, after) in enumerate(pairwise(strides))}
    axes = axes or {"axis0": 1}
    along = {
        group: tuple(
            i
            for i, stride in enumerate(strides[:-1])
            if any(first <= stride < end for first, end in spans[group])
        )
        for group in distinct
    }
    _check(axes, ranks, along)
    return axes, along


def _spans(group: Group) -> Sequence[tuple[int, int]]:
    """The stride and the extent of each axis of a group: 0-3, 16-19, 32-35: (1, 4), (16, 48).

    Raises UsageError where the ranks are not evenly apart like that.
    """
    left = np.array(group) - group[0]
    sums = np.zeros(1, int)
    spans = []
    while left.size > 1:
        stride = int(left[1])
        run = 1
        while run < left.size and left[run] == run * stride:
            run += 1
        spans.append((stride, stride * run))
        sums = np.add.outer(np.arange(0, stride * run, stride), sums).reshape(-1)
        left = left[::run]
    if tuple((group[0] + sums).tolist()) != group:
        raise UsageError(f"the {_named(group)} lies along no axes: its ranks are not evenly apart")
    return spans


def _check(axes: Mapping[str, int], ranks: int, along: Mapping[Group, Group]) -> None:
    """Raise UsageError when a group with the right strides does not start where one should."""
    names = list(axes)
    program = Program(name="", axes=axes, lists=((),), class_of=np.zeros(ranks, np.int32))
    known = {
        tuple(row)
        for numbers in set(along.values())
        for row in program.groups(tuple(names[i] for i in numbers)).tolist()
    }
    for group in along:
        if group not in known:
            raise UsageError(f"the {_named(group)} lies along no axes that it shares with others")


def _named(group: Group) -> str:
    return f"group of ranks {', '.join(map(str, group[:8]))}{', …' * (len(group) > 8)}"
