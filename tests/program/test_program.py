"""Where the ranks of a program lie along its axes."""

from itertools import combinations, product

import numpy as np
import pytest

from steptime.program import Program

SIZES = {"tensor": 2, "context": 3, "data": 4, "pipeline": 5}
PROGRAM = Program(name="step", axes=SIZES, lists=((),), class_of=np.zeros(120, np.int32))
COORDINATES = [place[::-1] for place in product(*map(range, reversed(SIZES.values())))]
"""Of each rank, as nested loops count: the first axis varies fastest."""


def test_the_first_axis_varies_fastest():
    for place, axis in enumerate(SIZES):
        assert PROGRAM.coordinate(axis).tolist() == [one[place] for one in COORDINATES]


@pytest.mark.parametrize(
    "axes", [some for count in range(5) for some in combinations(SIZES, count)], ids="-".join
)
def test_a_group_are_the_ranks_that_differ_along_its_axes_alone(axes):
    others = [place for place, axis in enumerate(SIZES) if axis not in axes]
    groups: dict[tuple[int, ...], list[int]] = {}
    for rank, coordinates in enumerate(COORDINATES):
        groups.setdefault(tuple(coordinates[place] for place in others), []).append(rank)
    want = list(groups.values())
    assert PROGRAM.groups(axes).tolist() == want
    assert PROGRAM.groups(axes[::-1]).tolist() == want


@pytest.mark.parametrize("axis", SIZES)
@pytest.mark.parametrize("by", [-1, 0, 1, 7])
def test_a_peer_differs_along_one_axis_which_wraps_around(axis, by):
    place = list(SIZES).index(axis)
    for here, peer in zip(COORDINATES, PROGRAM.peer(axis, by).tolist(), strict=True):
        moved = (here[place] + by) % SIZES[axis]
        assert COORDINATES[peer] == (*here[:place], moved, *here[place + 1 :])
