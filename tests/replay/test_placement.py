"""The memory of a rank's calls: no two that may be under way at once share what either writes."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxies import proxied
from steptime.program import MAIN, Collective, Compute, Op, Program, Recv, Send, Wait
from steptime.replay.demand import memory_bytes
from steptime.replay.extent import Extent, extent
from steptime.replay.placement import MESSAGE_BYTES, Layout, layout, pieces

KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")


def extents_of(ops: tuple[Op, ...], ranks: int = 4) -> list[Extent | None]:
    program = Program(
        name="p", axes={"data": ranks}, lists=(ops,), class_of=np.zeros(ranks, np.int32)
    )
    return [
        extent(program, op, "fp32") if isinstance(op, Collective | Send | Recv) else None
        for op in ops
    ]


def ended_before(ops: tuple[Op, ...]) -> list[set[int]]:
    """Which ops have surely ended before each of two steps begins: by walking every condition.

    The main stream of the first step has ended before anything of the second begins.
    """
    size = len(ops)
    known: list[set[int]] = []
    last: dict[str, int] = {}
    for place in range(2 * size):
        op, base = ops[place % size], place // size * size
        conditions = [at + base if at >= 0 else base + at for at in op.after]
        if op.stream in last:
            conditions.append(last[op.stream])
        if base:
            conditions += [at for at in range(size) if ops[at].stream == MAIN]
        known.append(set())
        for at in conditions:
            if at >= 0:
                known[place] |= known[at] | {at}
        last[op.stream] = place
    return known


def written(of: Layout, place: int) -> range:
    return range(of.writes[place].start, of.writes[place].stop)


def read(of: Layout, place: int) -> range:
    return range(of.reads[place].start, of.reads[place].stop)


def overlap(one: range, other: range) -> bool:
    return max(one.start, other.start) < min(one.stop, other.stop)


@st.composite
def any_ops(draw: st.DrawFn) -> tuple[Op, ...]:
    ops: list[Op] = []
    for place in range(draw(st.integers(1, 14))):
        after = tuple(draw(st.sets(st.integers(-1, place - 1), max_size=2)))
        nbytes = 16 * draw(st.sampled_from((16, 100, 1000)))
        stream = draw(st.sampled_from(("one", "two", "three", MAIN)))
        match draw(st.sampled_from(("compute", "wait", "collective", "collective", "recv"))):
            case "compute":
                ops.append(Compute(name="c", after=after))
            case "wait":
                ops.append(Wait(name="w", stream=stream, after=after))
            case "recv":
                ops.append(
                    Recv(name="r", axis="data", by=1, nbytes=nbytes, stream=stream, after=after)
                )
            case _:
                kind = draw(st.sampled_from(KINDS))
                ops.append(
                    Collective(
                        name=kind, kind=kind, group=("data",), nbytes=nbytes, stream=stream,
                        after=after,
                    )
                )  # fmt: skip
    return tuple(ops)


@given(ops=any_ops(), distinct=st.booleans())
@settings(max_examples=300, deadline=None)
def test_calls_that_may_be_under_way_at_once_lie_apart(ops: tuple[Op, ...], distinct: bool) -> None:
    extents, known, size = extents_of(ops), ended_before(ops), len(ops)
    of = layout(ops, extents, distinct=distinct)
    for one, other in combinations(range(2 * size), 2):
        if one in known[other] or one % size == other % size:
            continue
        a, b = one % size, other % size
        assert not overlap(written(of, a), written(of, b))
        if distinct:
            assert not overlap(read(of, a), written(of, b))
            assert not overlap(written(of, a), read(of, b))
    for place, extent_ in enumerate(extents):
        if extent_ is not None:
            assert written(of, place).stop <= of.target.get("fp32", 0)
            if not distinct:
                assert read(of, place).stop <= of.source.get("fp32", 0)


def reduce(elements: int, stream: str, *after: int) -> Collective:
    return Collective(
        name=stream, kind="all_reduce", group=("data",), nbytes=4 * elements, stream=stream,
        after=after,
    )  # fmt: skip


def test_what_the_main_stream_lies_between_shares_memory() -> None:
    wait = Wait(name="wait", after=(0,))
    apart = (reduce(640, "one"), wait, reduce(320, "two", 1), Wait(name="end", after=(2,)))
    assert layout(apart, extents_of(apart), distinct=False).target == {"fp32": 640}
    beside = (reduce(640, "one"), reduce(320, "two"), Wait(name="end", after=(0, 1)))
    assert layout(beside, extents_of(beside), distinct=False).target == {"fp32": 960}
    # Nothing waits for the first: it may still be under way in the next step.
    left = (reduce(640, "one"), reduce(320, "two"), Wait(name="end", after=(1,)))
    assert layout(left, extents_of(left), distinct=False).target == {"fp32": 960}


def test_all_that_is_only_read_is_read_from_one_place_unless_it_is_checked() -> None:
    ops = (
        Send(name="s", axis="data", by=1, nbytes=4 * 640, stream="out"),
        Send(name="t", axis="data", by=2, nbytes=4 * 64, stream="other"),
        Wait(name="end", after=(0, 1)),
    )
    shared = layout(ops, extents_of(ops), distinct=False)
    assert (shared.source, shared.target) == ({"fp32": 640}, {})
    own = layout(ops, extents_of(ops), distinct=True)
    assert (own.source, own.target) == ({}, {"fp32": 704})


def test_a_large_message_goes_in_pieces_from_one_source() -> None:
    most = MESSAGE_BYTES // 4
    assert pieces(most, "fp32") == [slice(0, most)]
    assert pieces(most + 5, "fp32")[1:] == [slice(most // 2, most), slice(most, most + 5)]
    ops = (Send(name="s", axis="data", by=1, nbytes=8 * MESSAGE_BYTES), Wait(name="e", after=(0,)))
    assert layout(ops, extents_of(ops), distinct=False).nbytes == MESSAGE_BYTES // 2
    assert layout(ops, extents_of(ops), distinct=True).nbytes == 8 * MESSAGE_BYTES


def test_two_layers_of_gpt3_fit_on_eight_ranks() -> None:
    plan = proxied("gpt3-175B", 8, layers=2, tensor=4, pipeline=2)
    assert plan.memory_bytes() < 750e6
    table = max(op.nbytes for op in plan.program.lists[0] if isinstance(op, Recv))
    assert plan.memory_bytes() >= table > 600e6


@pytest.mark.parametrize("ranks", [8, 64])
def test_the_original_gpt3_shares_what_its_calls_read(ranks: int) -> None:
    plan = proxied("gpt3", ranks, compat="dnn-cpp-proxies", pipeline=2)
    for ops in plan.program.lists:
        largest = max(op.nbytes for op in ops if isinstance(op, Collective | Send | Recv))
        assert memory_bytes(plan.program, ops, "fp32") <= 4 * largest
