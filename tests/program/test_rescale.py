"""Programs on more ranks, and with other speeds."""

from collections.abc import Sequence

import numpy as np
import pytest

from steptime.errors import UsageError
from steptime.program import Collective, Compute, Op, Program, check, match_calls
from steptime.program.rescale import rescaled
from steptime.program.what_if import split_what_if, with_speeds
from steptime.timeline import Phase

MB = 1 << 20


def _ops(rank: int, forward: Sequence[Op] = (), gradients: Sequence[Op] = ()) -> tuple[Op, ...]:
    """A step that computes ``1 + rank`` seconds in its forward."""
    update = Compute(name="optimizer", seconds=8.0, phase=Phase.UPDATE)
    return (
        Compute(name="forward", seconds=1.0 + rank),
        *forward,
        Compute(name="backward", seconds=2.0),
        *gradients,
        update,
    )


def _reduction(kind: str, *group: str, nbytes: int = MB) -> Collective:
    return Collective(name=kind, kind=kind, group=group, nbytes=nbytes)


def _program(axes: dict[str, int], forward: Sequence[Op], gradients: Sequence[Op]) -> Program:
    ranks = int(np.prod(list(axes.values())))
    lists = tuple(_ops(rank, forward, gradients) for rank in range(ranks))
    return Program(name="step", axes=axes, lists=lists, class_of=np.arange(ranks, dtype=np.int32))


def _seconds(program: Program, name: str) -> list[float]:
    """What each rank takes for the computation of a name."""
    lists = [program.lists[kind] for kind in program.class_of.tolist()]
    return [sum(getattr(op, "seconds", 0.0) for op in ops if op.name == name) for ops in lists]


def test_the_data_axis_grows_and_ranks_that_are_added_repeat_the_others() -> None:
    tensor = _reduction("all_reduce", "tp")
    norm = _reduction("all_reduce", "tp", "dp", nbytes=4)
    gradients = [tensor, _reduction("all_reduce", "dp"), norm]
    found = rescaled(_program({"tp": 2, "dp": 2}, [tensor], gradients), 16)
    check(found)
    match_calls(found)
    assert dict(found.axes) == {"tp": 2, "dp": 8}
    assert _seconds(found, "forward") == [1, 2, 3, 4] * 4
    assert _seconds(found, "optimizer") == [8.0] * 16


def test_an_inner_data_axis_grows_in_place() -> None:
    tensor = _reduction("all_reduce", "tp")
    found = rescaled(
        _program({"dp": 2, "tp": 2}, [tensor], [tensor, _reduction("all_reduce", "dp")]), 8
    )
    assert dict(found.axes) == {"dp": 4, "tp": 2}
    assert _seconds(found, "forward") == [1, 2, 1, 2, 3, 4, 3, 4]


def test_an_update_of_shards_is_shared_by_more() -> None:
    found = rescaled(_program({"world": 2}, [], [_reduction("reduce_scatter", "world")]), 8)
    assert _seconds(found, "optimizer") == [2.0] * 8


@pytest.mark.parametrize(
    ("forward", "gradients", "why"),
    [
        ([], [], "reduces nothing between a backward and an update"),
        (["tp"], ["tp"], "along tp it reduces as much in the forward"),
    ],
)
def test_what_cannot_be_told_is_said(forward: list[str], gradients: list[str], why: str) -> None:
    calls = [[_reduction("all_reduce", axis) for axis in of] for of in (forward, gradients)]
    with pytest.raises(UsageError, match=why):
        rescaled(_program({"tp": 2, "dp": 2}, *calls), 8)


def test_ranks_that_are_no_multiple_are_refused() -> None:
    program = _program({"tp": 2, "dp": 2}, [], [_reduction("all_reduce", "dp")])
    with pytest.raises(UsageError, match="choose a multiple of 2"):
        rescaled(program, 7)


def test_computations_and_ranks_have_the_speeds_that_are_asked_for() -> None:
    program = _program({"dp": 2}, [], [_reduction("all_reduce", "dp")])
    text = "bandwidth=2x,forward=2x,rank 1=0.5x,rank 0 back=4x"
    rest, speeds = split_what_if(text, [program])
    changed = with_speeds(program, speeds)
    check(changed)
    match_calls(changed)
    assert rest == "bandwidth=2x"
    assert split_what_if("lunch=2x", [program]) == ("lunch=2x", {}), "somebody else may know it"
    assert _seconds(changed, "forward") == [0.5, 2.0]
    assert _seconds(changed, "backward") == [0.5, 4.0]
    assert _seconds(changed, "optimizer") == [8.0, 16.0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("forward=fast", "is no speed"),
        ("forward=0x", "is no speed"),
        ("rank 2=2x", "the ranks are 0 to 1"),
        ("rank 1 lunch=2x", "nothing that is computed is called lunch"),
        ("forward=2x,forward=3x", "twice"),
    ],
)
def test_speeds_that_make_no_sense_are_refused(text: str, why: str) -> None:
    program = _program({"dp": 2}, [], [])
    with pytest.raises(UsageError, match=why):
        split_what_if(text, [program])


def test_what_a_device_takes_for_work_is_divided_by_its_speed() -> None:
    work = Compute(name="forward", flops=8.0, nbytes=4.0)
    program = Program(name="s", axes={"dp": 1}, lists=((work,),), class_of=np.zeros(1, np.int32))
    ((found,),) = with_speeds(program, {"forward": 2.0}).lists
    assert isinstance(found, Compute)
    assert (found.seconds, found.flops, found.nbytes) == (None, 4.0, 2.0)
