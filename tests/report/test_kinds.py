"""Ranks that do the same at the same times share a row of the timeline, which says whose it is."""

from collections.abc import Mapping

import numpy as np

import steptime as st
from report.packed import unpacked
from steptime.report.kinds import name_of, with_like
from steptime.report.trace import traces
from steptime.runs.figures import StepFigures
from steptime.timeline import MESSAGE, Phase, Recorder, Timeline, merge


def timeline_of(ranks: int, late: Mapping[int, float]) -> Timeline:
    """One step, of which some ranks compute a little longer."""
    recorders = [Recorder() for _ in range(ranks)]
    for rank, recorder in enumerate(recorders):
        recorder.add("step", "s", Phase.STEP, 0.0, 1.0)
        recorder.add("compute", "forward", Phase.COMPUTE, 0.0, 0.5 + late.get(rank, 0.0))
    return merge([recorder.timeline(rank, ranks) for rank, recorder in enumerate(recorders)])


def labels(timeline: Timeline) -> list[str]:
    ((one),) = traces({"s": (timeline, "s")})
    found: list[str] = unpacked(one.packed)[0]["labels"]
    return found


def test_ranks_that_do_the_same_share_a_row_and_another_stands_out() -> None:
    assert labels(timeline_of(12, {7: 1e-3})) == ["ranks 0–6, 8–11", "rank 7"]
    assert labels(timeline_of(12, {})) == ["ranks 0–11"]


def test_a_few_ranks_have_a_row_each_so_that_their_messages_show() -> None:
    assert labels(timeline_of(8, {})) == [f"rank {rank}" for rank in range(8)]


def test_messages_and_the_path_lead_to_the_rows_of_their_ranks() -> None:
    sent = np.array(
        [(0, 7, 0.1, 0.2, 5), (1, 7, 0.1, 0.2, 5), (7, 3, 0.3, 0.4, 6), (99, 7, 0.1, 0.2, 5)],
        MESSAGE,
    )
    line = timeline_of(12, {7: 1e-3})
    ((one),) = traces({"s": (Timeline(**vars(line) | {"messages": sent}), "s")})
    assert "share a row, 12 ranks 2; messages between them are not drawn." in one.note
    (step,) = unpacked(one.packed)[0]["steps"]
    assert [(src, dst, nbytes) for src, dst, *_, nbytes in step["messages"]] == [
        (0, 1, 5),  # two that are alike
        (1, 0, 6),
    ]
    assert {(row, rank) for row, *_, rank in step["path"]} <= {(0, r) for r in range(12)} | {(1, 7)}


def simulated(ranks: int) -> StepFigures:
    run = st.simulate("gpt2-124M", "dgx-h100-pod", ranks=ranks, tensor=4, pipeline=4)
    return next(iter(run.record.strategies.values()))


def test_a_row_that_stands_for_ranks_of_one_stage_says_so() -> None:
    entry = simulated(32)
    assert name_of(range(8), entry) == "ranks 0–7 of stage 0"
    assert name_of([31], entry) == "rank 31 of stage 3"
    assert name_of(range(16), entry) == "ranks 0–15"


def test_ranks_that_the_timeline_does_not_hold_go_with_those_of_the_same_figures() -> None:
    entry = simulated(128)
    assert with_like([[0], [32], [64], [96]], entry) == [
        list(range(at, at + 32)) for at in (0, 32, 64, 96)
    ]
    both = [[0], [1], [32]]  # 0 and 1 have the same figures: nobody knows whose the others are
    assert with_like(both, entry)[:2] == [[0], [1]]
