from fractions import Fraction

import numpy as np
import pytest
from program_made import everything

from steptime.errors import UsageError
from steptime.program import Collective, Compute, Program, Recv, Send
from steptime.replay.demand import demands, memory_bytes, predicted, scaled
from steptime.replay.device import Device


def program_of(*ops: Collective | Send | Recv | Compute, ranks: int = 4) -> Program:
    return Program(name="p", axes={"data": ranks}, lists=(ops,), class_of=np.zeros(ranks, np.int32))


def collective(kind: str, elements: int, stream: str = "comm", root: int = 0) -> Collective:
    return Collective(
        name=kind, kind=kind, group=("data",), nbytes=4 * elements, stream=stream, root=root
    )


def test_elements_are_those_that_a_call_is_given() -> None:
    program = program_of(
        collective("all_reduce", 1000),
        collective("all_reduce", 24),
        collective("all_gather", 1000),
        collective("all_to_all", 1000),
        Send(name="s", axis="data", by=1, nbytes=400),
        Recv(name="r", axis="data", by=-1, nbytes=400),
        Compute(name="c", flops=2e12),
        Compute(name="m", nbytes=1e9),
    )
    (demand,) = demands(program, Device(flops=1e12, memory=1e9))
    assert {key[0]: vars(calls) for key, calls in demand.collectives.items()} == {
        "all_reduce": {"calls": 2, "elements": 1024},
        "all_gather": {"calls": 1, "elements": 250},
        "all_to_all": {"calls": 1, "elements": 250},
    }
    assert vars(demand.sends) == vars(demand.receives) == {"calls": 1, "elements": 100}
    assert demand.compute_s == pytest.approx(3)
    # What is summed, gathered or received on one stream shares memory; what is sent or scattered
    # is read from elsewhere. Areas are multiples of 64 elements.
    assert demand.memory_bytes == 4 * (1024 + 1000)


def test_only_the_root_of_a_reduce_receives() -> None:
    moved = predicted(program_of(collective("reduce", 100, root=2)))
    assert [of["data"].sent for of in moved] == [400, 400, 0, 400]
    assert [of["data"].received for of in moved] == [0, 0, 1200, 0]
    (of, *_) = predicted(program_of(collective("all_to_all", 100)))
    assert of["data"] == (300, 300)


@pytest.mark.parametrize("fraction", [Fraction(1), Fraction(1, 3), Fraction(1, 10**9)])
def test_scaling_leaves_whole_elements_for_every_rank(fraction: Fraction) -> None:
    whole = everything(3, 2)
    small = scaled(whole, fraction)
    for op, less in zip(whole.lists[0], small.lists[0], strict=True):
        if isinstance(op, Collective | Send | Recv):
            assert less.nbytes <= op.nbytes  # type: ignore[union-attr]
            assert less.nbytes >= fraction * op.nbytes  # type: ignore[union-attr]
    demands(small, Device())  # raises where something does not divide
    assert fraction < 1 or small.lists == whole.lists


def test_counts_above_32_bits_stay_exact() -> None:
    elements = 2**31 + 4
    (demand,) = demands(program_of(collective("all_reduce", elements)), Device())
    assert demand.collectives["all_reduce", ("data",), 4].elements == elements
    assert predicted(program_of(collective("all_reduce", elements)))[0]["data"].sent == (
        2 * 3 * 4 * elements // 4
    )


def test_what_does_not_divide_is_refused() -> None:
    with pytest.raises(UsageError, match="make it a multiple of 16"):
        demands(program_of(collective("all_gather", 7)), Device())
    with pytest.raises(UsageError, match="'int4', which cannot be replayed"):
        demands(
            program_of(
                Collective(name="x", kind="all_reduce", group=("data",), nbytes=4, dtype="int4")
            ),
            Device(),
        )


def test_a_group_of_one_needs_no_buffer() -> None:
    alone = program_of(collective("all_reduce", 1000), ranks=1)
    assert memory_bytes(alone, alone.lists[0], "fp32") == 0
