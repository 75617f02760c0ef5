"""A strategy that takes turns: what its timeline shows, and one that memory does not hold."""

from functools import partial

import numpy as np
import pytest

import steptime as st
from steptime.strategies import strategy_named
from steptime.timeline import INTERVAL, MESSAGE, Phase, Timeline
from steptime.train.contestant import shown

STEP, COMMUNICATION = int(Phase.STEP), int(Phase.COMMUNICATION)


def timeline(rows: list[tuple[int, int, float, float]]) -> Timeline:
    """Of (phase, step, start, end)."""
    intervals = np.zeros(len(rows), dtype=INTERVAL)
    for field, values in zip(
        ("phase", "step", "start", "end"), zip(*rows, strict=True), strict=True
    ):
        intervals[field] = values
    return Timeline(
        source="measured",
        ranks=1,
        names=("server",),
        streams=("step",),
        intervals=intervals,
        messages=np.empty(0, dtype=MESSAGE),
    )


def test_a_lead_in_leaves_the_communication_that_may_reach_into_the_step_after_it():
    whole = timeline(
        [(STEP, 0, 0, 1), (COMMUNICATION, 0, 0.2, 0.9),
         (STEP, 1, 5, 6), (COMMUNICATION, 1, 5.2, 5.9), (COMMUNICATION, 1, 5.9, 6.4),
         (STEP, 2, 6, 7), (COMMUNICATION, 2, 6.9, 7.3)]
    )  # fmt: skip
    rows = shown(whole, [0, 2], first=10).intervals
    found = [tuple(row) for row in rows[["phase", "step", "start", "end"]].tolist()]
    assert found == [
        (STEP, 10, 0, 1), (COMMUNICATION, 10, 0.2, 0.9),
        (COMMUNICATION, -12, 5.2, 5.9), (COMMUNICATION, -12, 5.9, 6.4),
        (STEP, 11, 6, 7), (COMMUNICATION, 11, 6.9, 7.3),
    ]  # fmt: skip


def raced(kept: bool) -> tuple[list[int], list[str], int, float] | None:
    """Two strategies on live ranks, three steps in two turns."""
    from steptime.study.compare import take_turns
    from steptime.train.job import prepare_job
    from steptime.train.options import DataOptions, JobOptions, ModelOptions, TrainOptions
    from steptime.turns import TurnOptions

    options = JobOptions(
        model=ModelOptions(layers=1, heads=2, hidden=32, tokens=32),
        data=DataOptions(),
        train=TrainOptions(batch=4),
        precision="fp32",
        compiled=False,
        steps=4,
        warmup=1,
        seed=0,
    )
    job = prepare_job(options, on_gpu=False)
    chosen = [strategy_named(name) for name in ("replicated", "overlapped_sharded")]
    found = take_turns(job, chosen, TurnOptions(turns=2), lambda _: None, kept=kept)
    if found is None or found.race is None:
        return None
    steps = found.timeline.steps_named("overlapped_sharded")
    entry = found.strategies["overlapped_sharded"]
    order = [block.strategy for block in found.race.turns.blocks]
    own = steps["step"][steps["rank"] == 1].tolist()
    return own, order, len(entry.loss), entry.bytes_sent_per_rank[0]


@pytest.mark.slow
def test_trainings_are_kept_from_turn_to_turn_or_begun_again():
    kept, again = (st.run(partial(raced, kept), ranks=2)[0] for kept in (True, False))
    assert kept is not None and again is not None
    # One step of the warm-up and three timed ones, of five or, begun again, of four in the first.
    assert (kept[0], again[0]) == ([0, 1, 2, 3], [0, 1, 2, 3])
    assert (kept[2], again[2]) == (6, 4)
    assert kept[1] == again[1]  # one seed, one order
    assert sorted(kept[1]) == 2 * ["overlapped_sharded"] + 2 * ["replicated"]
    assert kept[3] == again[3] > 0
