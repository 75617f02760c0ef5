"""How the points of a live scaling study take turns, and what the turns say of a speedup."""

from collections import Counter

import numpy as np
import pytest

from steptime.runs.scale import StepTimes
from steptime.study import scale_live
from steptime.study.scale import Steps, cells_of
from steptime.study.scale_live import all_fit, order_of_turns
from steptime.study.scale_options import Grid, LiveOptions, Point, live_job, make_grid
from steptime.timeline.efficiency import Usage
from steptime.train.options import DataOptions, JobOptions
from steptime.workloads.spec import StepSpec


def grid() -> Grid:
    return make_grid((1, 2, 4), (1,), ("replicated", "overlapped"), "strong", None)


def job(steps: int = 6) -> JobOptions:
    return live_job(StepSpec(model=""), DataOptions(), LiveOptions(steps=steps))


def test_every_point_comes_once_a_turn_and_before_and_behind_all_turns():
    names = ["1x1", "2x1", "4x1"]
    order = order_of_turns(grid(), job(steps=6))
    assert (order[:3], order[-3:]) == (names, names)
    turns = [tuple(order[at : at + 3]) for at in range(3, len(order) - 3, 3)]
    assert [Counter(turn) for turn in turns] == [Counter(names)] * 6
    assert len(set(turns)) > 1
    assert order == order_of_turns(grid(), job(steps=6))  # every rank draws the same


def test_points_take_turns_only_where_memory_holds_them_all(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scale_live, "available_bytes", lambda: 2**40)
    assert all_fit(grid(), job())
    monkeypatch.setattr(scale_live, "available_bytes", lambda: 2**30)
    assert not all_fit(grid(), job())


def steps(point: Point, strategy: str, seconds: list[float]) -> Steps:
    mean = float(np.mean(seconds))
    usage = Usage(
        useful_s=(mean * len(seconds),) * point.ranks,
        run_time_s=mean * len(seconds),
        steps=len(seconds),
        threads=point.threads,
    )
    return Steps(
        point=point,
        strategy=strategy,
        source="measured",
        times=StepTimes(mean=mean, median=mean, p10=mean, p90=mean),
        usage=usage,
        ideal=usage,
        other_s=0.0,
        tokens=1,
        folder="",
        turn_s=dict(enumerate(seconds)),
    )


def test_a_speedup_has_the_interval_of_pairs_only_where_its_point_took_turns():
    slowly = np.array([1.0, 2.0, 1.5, 3.0, 1.2])  # the machine wanders by more than cells differ
    noise = np.array([1.0, 1.02, 0.99, 1.01, 0.98])
    everything = [
        steps(Point(1, 1), "replicated", slowly.tolist()),
        steps(Point(2, 1), "replicated", (slowly * noise / 1.8).tolist()),
        steps(Point(2, 1), "overlapped", (slowly / 1.5).tolist()),
    ]
    base, replicated, overlapped = cells_of(grid(), everything, None, in_turns=True)
    assert base.speedup_ci95 == (1, 1)
    assert replicated.speedup_ci95 is not None and overlapped.speedup_ci95 is not None
    low, high = replicated.speedup_ci95
    assert 1.7 < low < replicated.against.speedup < high < 1.95
    assert overlapped.speedup_ci95 == pytest.approx((1.5, 1.5))
    apart = cells_of(grid(), everything, None)
    assert [cell.speedup_ci95 for cell in apart] == [(1, 1), None, None]
