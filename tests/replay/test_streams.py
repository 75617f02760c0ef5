from steptime.program import Collective, Compute, Wait
from steptime.replay.streams import Streams, Turn


def collective(name: str, stream: str, after: tuple[int, ...] = ()) -> Collective:
    return Collective(
        name=name, kind="all_reduce", group=("data",), nbytes=4, stream=stream, after=after
    )


def names(streams: Streams) -> list[str]:
    return [turn.op.name for turn in (*streams.computations, *streams.calls)]


def do(streams: Streams, name: str, *, end: bool = True) -> Turn:
    """Begin an op that may begin, and end it."""
    for queue in (streams.computations, streams.calls):
        for turn in [turn for turn in queue if turn.op.name == name]:
            queue.remove(turn)
            streams.begin(turn)
            if end:
                streams.end(turn)
            return turn
    raise AssertionError(f"{name} may not begin: only {names(streams)} may")


def test_calls_of_a_group_begin_in_the_order_of_the_list_on_any_stream() -> None:
    streams = Streams(
        (Compute(name="c"), collective("first", "one", after=(0,)), collective("second", "two"))
    )
    streams.add_step(0)
    assert names(streams) == ["c"]  # the second could begin, but the first must before it
    assert streams.held_up_by() == ""
    do(streams, "c")
    assert names(streams) == ["first"]
    do(streams, "first", end=False)
    assert names(streams) == ["second"]  # begun is enough: each has a stream of its own
    assert streams.main_is_done()
    assert not streams.done()


def test_a_negative_place_is_one_of_the_step_before() -> None:
    ops = (Wait(name="gathered", after=(-1,)), collective("gather", "comm", after=(0,)))
    streams = Streams(ops)
    streams.add_step(0)
    do(streams, "gathered")
    do(streams, "gather", end=False)
    streams.add_step(1)
    assert names(streams) == []
    assert streams.held_up_by() == "data"
