"""Cells against their baseline, and the sentence on what bounds each."""

import pytest

from steptime.runs.environment import Environment
from steptime.runs.record import Work
from steptime.runs.scale import StepTimes, scale_json
from steptime.study.scale import Steps, cells_of, scale_record
from steptime.study.scale_options import Point, make_grid
from steptime.timeline.efficiency import Usage

BASE = Usage(useful_s=(10.0,), run_time_s=10.0)


def steps_of(usage: Usage, ideal_s: float, *, other_s: float = 0.0, threads: int = 1) -> Steps:
    step_s = usage.run_time_s
    return Steps(
        point=Point(usage.ranks, threads),
        strategy="replicated",
        source="measured",
        times=StepTimes(mean=step_s, median=step_s, p10=step_s, p90=step_s),
        usage=usage,
        ideal=Usage(useful_s=usage.useful_s, run_time_s=ideal_s),
        other_s=other_s,
        tokens=100,
        folder="",
    )


def cell(useful_s, run_time_s, ideal_s, *, cores=64, other_s=0.0):
    usage = Usage(useful_s=useful_s, run_time_s=run_time_s)
    grid = make_grid((1, len(useful_s)), (1,), ("replicated",), "strong", None)
    everything = [steps_of(BASE, 10.0), steps_of(usage, ideal_s, other_s=other_s)]
    return cells_of(grid, everything, cores)[1]


@pytest.mark.parametrize(
    ("useful_s", "run_time_s", "ideal_s", "factor", "sentence"),
    [
        ((5.0, 5.0), 5.0, 5.0, "nothing", "nothing in particular: 100 % of its time is useful"),
        ((5.0, 5.0), 8.0, 5.0, "transfer", "transfer: an ideal network would save 38 % of the"),
        ((5.0, 5.0), 8.0, 8.0, "serialisation", "ranks wait for one another 38 % of the step"),
        ((3.0, 7.0), 7.0, 7.0, "load balance", "rank 1 computes 40 % longer than the mean"),
        ((6.0, 6.0), 6.0, 6.0, "computation", "the same work takes 20 % more compute time"),
        ((15.0, 15.0), 15.0, 15.0, "computation", "takes 3.0 times the compute time"),
    ],
)
def test_the_smallest_factor_bounds_the_step(useful_s, run_time_s, ideal_s, factor, sentence):
    bound = cell(useful_s, run_time_s, ideal_s).bound
    assert bound.factor == factor
    assert sentence in bound.sentence


def test_what_is_neither_useful_nor_waiting_is_named_by_itself():
    bound = cell((5.0, 5.0), 10.0, 10.0, other_s=4.0).bound
    assert bound.factor == "other work"
    assert bound.sentence == "other work, such as reading the batch, takes 40 % of the step"


def test_more_threads_than_cores_are_marked():
    assert not cell((6.0, 6.0), 6.0, 6.0, cores=2).oversubscribed
    starved = cell((6.0, 6.0), 6.0, 6.0, cores=1)
    assert starved.oversubscribed
    assert starved.bound.sentence.endswith("with more threads than cores")


def test_the_factors_multiply_to_the_global_efficiency():
    usage = Usage(useful_s=(4.0, 6.5, 7.0), run_time_s=9.0)
    grid = make_grid((1, 3), (1,), ("replicated",), "strong", None)
    cells = cells_of(grid, [steps_of(BASE, 10.0), steps_of(usage, 7.5)], 4)
    run = scale_json(scale_record(grid, cells, Work(model="m"), Environment(time="")))
    entry = run["cells"][1]
    product = (
        entry["load_balance"]
        * entry["serialisation_efficiency"]
        * entry["transfer_efficiency"]
        * entry["computation_scalability"]
    )
    assert product == pytest.approx(entry["global_efficiency"], rel=1e-12)
    assert entry["global_efficiency"] == pytest.approx(10.0 / 27.0, rel=1e-12)
    assert entry["speedup"] == pytest.approx(10 / 9, rel=1e-12)
    assert entry["tokens_per_s_scaling"] == pytest.approx(10 / 27, rel=1e-12)
    assert run["baseline"]["name"] == "1x1"
    assert run["baseline"]["step_time_s"] == 10.0
    assert run["cells"][0]["bound"]["sentence"].startswith("the baseline; nothing in particular")


def test_executions_are_told_apart():
    grid = make_grid((1, 2), (1, 2), ("replicated", "overlapped"), "strong", None)
    everything = [
        Steps(
            **{
                **steps_of(Usage(useful_s=(1.0,) * point.ranks, run_time_s=1.0), 1.0).__dict__,
                "point": point,
                "strategy": strategy,
            }
        )
        for point in grid.points
        for strategy in grid.strategies_at(point)
    ]
    kinds = [(str(c.steps.point), c.execution) for c in cells_of(grid, everything, 2)]
    assert kinds == [
        ("1x1", "sequential"),
        ("1x2", "fork-join"),
        ("2x1", "blocking"),
        ("2x1", "overlapped"),
        ("2x2", "blocking"),
        ("2x2", "overlapped"),
    ]
