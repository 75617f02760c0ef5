"""Paraver traces: every line by the grammar, and what the records say."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from paraver_grammar import ParaverTrace, read_paraver
from steptime.timeline import INTERVAL, MESSAGE, Phase, Timeline
from steptime.timeline.paraver import COLLECTIVE, NAME, POINT_TO_POINT, STEP, write_paraver


def two_hosts() -> Timeline:
    """Two ranks, on each a step: a send that meets a receive, then an all_reduce behind compute."""
    rows = []
    for rank, name in ((0, 2), (1, 3)):
        rows += [
            (rank, 0, 0, Phase.STEP, 4, 10.0, 10.001, 0, 0),
            (rank, 1, 1, Phase.COMPUTE, 4, 10.0, 10.0004, 0, 0),
            (rank, 1, 4, Phase.WAIT, 4, 10.0004, 10.0004, 0, 0),
            (rank, 2, name, Phase.COMMUNICATION, 4, 10.0001, 10.0005, 1 << 40, 0),
            (rank, 2, 5, Phase.COMMUNICATION, 4, 10.0005, 10.0009, 64, 0),
            (rank, 2, 5, Phase.COMMUNICATION, 4, 10.0006, 10.0009, 64, 0),
            (rank, 1, 6, Phase.UPDATE, 4, 10.0009, 10.001, 0, 0),
        ]
    return Timeline(
        source="measured",
        ranks=2,
        names=("s", "forward", "go", "come", "wait", "sum\n  up", "update"),
        streams=("step", "compute", "comm"),
        intervals=np.array(rows, INTERVAL),
        messages=np.array([(0, 1, 10.0001, 10.0005, 1 << 40)], MESSAGE),
    )


MESSAGES = ("MPI_Isend", "MPI_Irecv")
KINDS = {"go": "send", "come": "recv", "sum\n  up": "all_reduce"}


def written(folder: Path, timeline: Timeline, hosts: list[str]) -> ParaverTrace:
    paths = write_paraver(folder / "t", timeline, hosts=hosts, kinds=KINDS)
    assert [path.name for path in paths] == ["t.prv", "t.pcf", "t.row"]
    return read_paraver(folder / "t")


def values(event: tuple[int, ...]) -> list[tuple[int, int]]:
    """The types and values of an event record."""
    return list(zip(event[6::2], event[7::2], strict=True))


def test_states_events_and_messages_say_what_happened(tmp_path: Path) -> None:
    trace = written(tmp_path, two_hosts(), ["a", "b"])
    assert trace.end == 1_000_000
    assert trace.cpus == [1, 1]
    assert trace.threads == [(3, 1), (3, 2)]  # two sums at once need a thread each
    of_rank_0 = [(s[4], *s[5:8]) for s in trace.states if s[3] == 1]
    assert of_rank_0 == [
        (1, 0, 400_000, 1),
        (2, 100_000, 500_000, 10),
        (2, 500_000, 900_000, 13),
        (3, 600_000, 900_000, 13),
        (1, 900_000, 1_000_000, 1),
    ]
    (message,) = trace.messages
    assert message[3:7] == (1, 2, 100_000, 100_000)
    assert message[9:] == (2, 2, 100_000, 500_000, 1 << 40, 0)
    events = [(e[3], e[5], *pair) for e in trace.events for pair in values(e)]
    assert (1, 0, STEP, 5) in events
    assert (1, 1_000_000, STEP, 0) in events
    assert (1, 100_000, POINT_TO_POINT, 3) in events
    assert (2, 100_000, POINT_TO_POINT, 4) in events
    assert (1, 500_000, COLLECTIVE, 10) in events
    assert (1, 900_000, COLLECTIVE, 0) in events
    assert not [e for e in events if e[1] == 500_000 and e[2] == NAME and e[3] == 0]


def test_what_is_named_like_a_call_of_mpi_but_is_none_has_no_event_of_one(tmp_path: Path) -> None:
    rows = [
        (0, 1, 0, Phase.WAIT, 0, 0.0, 1e-6, 0, 0.0),
        (0, 1, 1, Phase.COMMUNICATION, 0, 1e-6, 2e-6, 8, 0.0),
        (0, 1, 0, Phase.COMMUNICATION, 0, 2e-6, 3e-6, 8, 0.0),
    ]
    timeline = Timeline(
        source="measured",
        ranks=1,
        names=("all_reduce", "something else"),
        streams=("step", "comm"),
        intervals=np.array(rows, INTERVAL),
        messages=np.empty(0, MESSAGE),
    )
    trace = written(tmp_path, timeline, [])
    events = [(e[5], *pair) for e in trace.events for pair in values(e)]
    assert [value for at, kind, value in events if kind == COLLECTIVE and at < 3000] == [0, 0, 10]


def test_labels_resolve_and_stay_on_one_line(tmp_path: Path) -> None:
    trace = written(tmp_path, two_hosts(), ["a", "a"])
    assert {state[7] for state in trace.states} <= trace.state_names.keys()
    named = {pair for e in trace.events for pair in values(e) if pair[0] == NAME}
    assert {trace.values[NAME][value] for _, value in named} == {
        *("End", "forward", "go", "come", "sum up", "update")
    }
    assert trace.values[COLLECTIVE][10] == "MPI_Allreduce"
    assert [trace.values[POINT_TO_POINT][value] for value in (0, 3, 4)] == ["End", *MESSAGES]
    assert trace.rows["NODE"] == ["a"]
    assert trace.rows["TASK"] == ["rank 0", "rank 1"]
    assert trace.rows["THREAD"][:3] == ["rank 0 compute", "rank 0 comm", "rank 0 comm"]


def test_a_rank_of_which_nothing_is_known_has_a_row(tmp_path: Path) -> None:
    timeline = two_hosts()
    shown = timeline.intervals[timeline.intervals["rank"] == 1]
    one = Timeline(**{**vars(timeline), "intervals": shown})
    trace = written(tmp_path, one, [])
    assert trace.threads == [(1, 1), (3, 1)]
    assert trace.rows["THREAD"][0] == "rank 0 not shown"
    assert re.fullmatch(r"1\.\w+", trace.rows["CPU"][0])


def test_an_empty_timeline_is_a_trace_of_nothing(tmp_path: Path) -> None:
    whole = two_hosts()
    none = Timeline(
        **{**vars(whole), "intervals": whole.intervals[:0], "messages": whole.messages[:0]}
    )
    trace = written(tmp_path, none, [])
    assert (trace.end, trace.states, trace.events, trace.messages) == (0, [], [], [])


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2), st.integers(0, 2), st.sampled_from(Phase), *[st.floats(0, 1e-5)] * 2
        ),
        min_size=1,
        max_size=25,
    ),
    st.lists(st.tuples(*[st.integers(0, 2)] * 2, *[st.floats(0, 1e-5)] * 2), max_size=5),
)
def test_whatever_overlaps_is_written_by_the_grammar(tmp_path_factory, intervals, messages) -> None:
    rows = [(r, s, s, p, 0, min(a, b), max(a, b), 8, 0) for r, s, p, a, b in intervals]
    sent = [(src, dst, min(a, b), max(a, b), 8) for src, dst, a, b in messages]
    timeline = Timeline(
        source="simulated",
        ranks=3,
        names=("a", "b", "c"),
        streams=("x", "y", "z"),
        intervals=np.array(rows, INTERVAL),
        messages=np.array(sent, MESSAGE),
    )
    trace = written(tmp_path_factory.mktemp("prv"), timeline, [])
    by_thread: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for state in trace.states:
        by_thread.setdefault((state[3], state[4]), []).append((state[5], state[6]))
    for states in by_thread.values():
        states.sort()
        assert all(one[1] <= other[0] for one, other in pairwise(states))
    assert len(trace.messages) == len(messages)
