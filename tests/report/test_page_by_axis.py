"""The page's table of what a step spends along each axis, from its record alone."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from report.typed import record
from steptime.report.page import context
from steptime.report.subject import Run
from steptime.runs.axis_time import AxisTime
from steptime.runs.record import RunRecord, run_record, to_json

MakeRun = Callable[..., dict[str, Any]]

PIPELINE = AxisTime(
    axis="pipeline",
    under_way_s=8e-3,
    exposed_s=2e-3,
    hidden_s=5e-3,
    most_under_way_s=9e-3,
    most_exposed_s=3e-3,
    most_hidden_s=6e-3,
)
TENSOR = replace(PIPELINE, axis="tensor", exposed_s=1e-3)


def made(make_run: MakeRun, *axes: AxisTime, exposed_s: float = 4e-3) -> RunRecord:
    run = record(make_run("server"))
    (figures,) = run.strategies.values()
    known = replace(figures, axes=axes, exposed_comm_s=exposed_s, bubble_s=1e-3)
    return replace(run, strategies={"server": known})


def table(run: RunRecord) -> dict[str, Any]:
    found: dict[str, Any] = context([Run("run", run, None)])["by_axis"]
    return found


def test_each_axis_has_a_row_and_what_is_of_none_the_last(make_run: MakeRun) -> None:
    shown = table(made(make_run, PIPELINE, TENSOR))
    assert [(row["axis"], row["exposed"], row["bubble"]) for row in shown["rows"]] == [
        ("pipeline", "2.00 ms · 3.00 ms", "1.00 ms"),
        ("tensor", "1.00 ms · 3.00 ms", ""),
        ("no call under way", "1.00 ms", ""),
    ]
    assert shown["bubble"]
    assert not shown["named"]


def test_exposed_times_that_add_up_leave_no_row(make_run: MakeRun) -> None:
    shown = table(made(make_run, PIPELINE, TENSOR, exposed_s=3e-3))
    assert [row["axis"] for row in shown["rows"]] == ["pipeline", "tensor"]


def test_replicas_alone_have_no_such_table(make_run: MakeRun) -> None:
    assert table(record(make_run("server")))["rows"] == []


def test_a_record_keeps_the_axes_and_one_without_them_is_read(make_run: MakeRun) -> None:
    run = made(make_run, PIPELINE, TENSOR)
    raw = to_json(run)
    assert run_record(raw).best.axes == [PIPELINE, TENSOR]
    del raw["strategies"]["server"]["axes"]
    assert run_record(raw).best.axes == ()
