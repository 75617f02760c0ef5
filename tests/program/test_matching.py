"""Who meets whom, and programs that contradict themselves."""

from math import nan

import numpy as np
import pytest

from steptime.errors import UsageError
from steptime.program import Collective, Compute, Program, Recv, Send, Wait, check, match_calls


def program(*lists, class_of=None, **axes):
    ranks = int(np.prod(list(axes.values())))
    classes = np.zeros(ranks) if class_of is None else np.array(class_of)
    return Program(name="p", axes=axes, lists=lists, class_of=classes.astype(np.int32))


def reduce(group, nbytes=8, **more):
    return Collective(name="r", kind="all_reduce", group=group, nbytes=nbytes, **more)


def matched(one):
    """For each instance, in any order: its call, and its members."""
    found = match_calls(one)
    bounds = zip(found.first[:-1], found.first[1:], strict=True)
    return sorted(
        (found.calls[call].kind, found.calls[call].nbytes, tuple(found.members[a:b].tolist()))
        for call, (a, b) in zip(found.call, bounds, strict=True)
    )


def test_a_collective_meets_along_its_axes():
    ops = (reduce(("tensor",)), reduce(("data",), 16), reduce(("tensor",), 24))
    assert matched(program(ops, tensor=2, data=3)) == [
        *[("all_reduce", 8, (2 * d, 2 * d + 1)) for d in range(3)],
        *[("all_reduce", 16, (t, 2 + t, 4 + t)) for t in range(2)],
        *[("all_reduce", 24, (2 * d, 2 * d + 1)) for d in range(3)],
    ]


def test_the_order_in_which_a_group_names_its_axes_does_not_matter():
    lists = ((reduce(("tensor", "data")),), (reduce(("data", "tensor")),))
    one = program(*lists, class_of=[0, 1, 0, 1], tensor=2, data=2)
    assert matched(one) == [("all_reduce", 8, (0, 1, 2, 3))]


def test_every_part_knows_its_instance_and_its_place_there():
    ops = (reduce(("data",)), Wait(name="w"), reduce(("tensor", "data")), reduce(("tensor",)))
    found = match_calls(program(ops, tensor=2, data=3))
    for rank in range(6):
        parts = slice(found.parts_of[rank], found.parts_of[rank + 1])
        for instance, place in zip(found.instance[parts], found.place[parts], strict=True):
            assert found.members[found.first[instance] + place] == rank


def test_sends_meet_receives_in_their_order_and_by_tag():
    first = (
        Send(name="a", axis="pipe", by=1, nbytes=1, tag=7),
        Send(name="b", axis="pipe", by=1, nbytes=2),
        Send(name="c", axis="pipe", by=1, nbytes=3),
    )
    second = (
        Recv(name="x", axis="pipe", by=-1, nbytes=2),
        Recv(name="y", axis="pipe", by=-1, nbytes=3),
        Recv(name="z", axis="pipe", by=1, nbytes=1, tag=7),  # of two, both ways lead to the other
    )
    one = program(first, second, class_of=[0, 1], pipe=2)
    assert matched(one) == [("", 1, (0, 1)), ("", 2, (0, 1)), ("", 3, (0, 1))]


def test_groups_of_a_call():
    ops = (reduce(("tensor",)), reduce(("tensor",)))
    found = match_calls(program(ops, tensor=2, data=2))
    (when,) = found.instances
    assert when.numbers.size == 4
    assert when.groups.tolist() == [[0, 1], [2, 3]]
    assert np.bincount(when.group).tolist() == [2, 2]


def test_lists_that_no_rank_has_do_not_matter():
    one = program((reduce(("data",)),), (reduce(("data",), 99),), class_of=[0, 0], data=2)
    assert matched(one) == [("all_reduce", 8, (0, 1))]
    assert len(match_calls(one).calls) == 1


@pytest.mark.parametrize(
    ("lists", "words"),
    [
        (((reduce(("data",)),), ()), "rank 0 of p calls all_reduce of 8 bytes .* rank 1"),
        (((reduce(("data",)),), (reduce(("data",), 9),)), "of 9 bytes with the root 0"),
        (
            ((reduce(("data",)), reduce(("data",), 9)), (reduce(("data",), 9), reduce(("data",)))),
            "collective number 1 .* same order",
        ),
        (((Send(name="s", axis="data", by=1, nbytes=1),), ()), "sends 1 .* which receives 0"),
        (((), (Recv(name="r", axis="data", by=1, nbytes=1),)), "sends 0 .* which receives 1"),
        (
            (
                (Send(name="s", axis="data", by=1, nbytes=1),),
                (Recv(name="r", axis="data", by=1, nbytes=1, tag=1),),
            ),
            "give each Send its Recv",
        ),
        (
            (
                (Send(name="s", axis="data", by=1, nbytes=1),),
                (Recv(name="r", axis="data", by=1, nbytes=2),),
            ),
            "sends 1 bytes to rank 1 with the tag 0, which expects 2",
        ),
    ],
)
def test_ranks_that_do_not_agree_are_refused(lists, words):
    with pytest.raises(UsageError, match=words):
        match_calls(program(*lists, class_of=[0, 1], data=2))


@pytest.mark.parametrize(
    ("op", "words"),
    [
        (reduce(("pipe",)), "along the axis 'pipe', which it lacks: it has data"),
        (reduce(("data", "data")), "names an axis twice"),
        (reduce(("data",), -1), "-1 bytes"),
        (reduce(("data",), root=2), "has the root 2, and its group has the members 0 to 1"),
        (Send(name="s", axis="d", by=1, nbytes=1), "along the axis 'd'"),
        (Compute(name="c", seconds=nan), "has seconds of nan"),
        (Compute(name="c", flops=-1), "has flops of -1"),
        (Wait(name="w", after=(0,)), "does not come before it"),
        (Wait(name="w", after=(-2,)), "does not come before it"),
    ],
)
def test_an_op_that_cannot_be_is_refused(op, words):
    with pytest.raises(UsageError, match=words):
        check(program((op,), data=2))


def test_a_program_whose_axes_hold_other_ranks_is_refused():
    with pytest.raises(UsageError, match="hold 4 ranks and its program has 2"):
        check(program((), class_of=[0, 0], tensor=2, data=2))
    with pytest.raises(UsageError, match="rank 1 of p is of class 1, and there are 1 lists"):
        check(program((), class_of=[0, 1], data=2))
