"""The page of a scaling study in a real browser."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steptime.report.scale_page import headline, lines, write_scale
from steptime.runs.environment import Environment
from steptime.runs.record import Work
from steptime.runs.scale import ScaleRecord, StepTimes
from steptime.study.scale import Steps, cells_of, scale_record
from steptime.study.scale_options import make_grid
from steptime.timeline.efficiency import Usage


def study(ranks: tuple[int, ...], threads: tuple[int, ...], **facts: Any) -> ScaleRecord:
    """A study of a step that transfers more with every rank, on two cores."""
    grid = make_grid(ranks, threads, ("replicated", "overlapped"), "strong", None)
    everything = []
    for point in grid.points:
        for strategy in grid.strategies_at(point):
            useful = 0.4 / (point.ranks * point.threads**0.8)
            comm = 0.01 * (point.ranks - 1) ** 0.5 / (1 + 2 * (strategy == "overlapped"))
            step_s = 1.02 * useful + comm
            everything.append(
                Steps(
                    point=point,
                    strategy=strategy,
                    source="measured",
                    times=StepTimes(
                        mean=step_s, median=step_s, p10=0.95 * step_s, p90=1.1 * step_s
                    ),
                    usage=Usage(
                        useful_s=(useful,) * point.ranks, run_time_s=step_s, threads=point.threads
                    ),
                    ideal=Usage(useful_s=(useful,) * point.ranks, run_time_s=1.02 * useful),
                    other_s=0.0,
                    tokens=4096,
                    folder=f"cells/{point}",
                )
            )
    environment: dict[str, Any] = {
        "time": "2026-11-20T18:00:00+00:00",
        "command": ["steptime", "scale", "--note", "two words"],
        "host": "a",
        "cpu": "AMD EPYC 7R13",
        "cores": 2,
        "python": "3.11.2",
        "steptime": "0.1.0",
        "versions": {"torch": "2.13.0", "numpy": "2.4.6"},
        "git_revision": None,
    }
    about = {
        "run": "runs/scale",
        "backend": "gloo",
        "steps": 40,
        "warmup": 5,
        "cores": 2,
    }
    work = Work(model="<gpt2> nano", precision="fp32", batch=32)
    cells = cells_of(grid, everything, 2)
    return scale_record(grid, cells, work, Environment(**environment), **about | facts)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_page_draws_every_cell(
    open_html: Callable[..., Any], tmp_path: Path, width: int, scheme: str
) -> None:
    run = study((1, 2, 4), (1, 2))
    write_scale(tmp_path / "report.html", run)
    page = open_html(tmp_path / "report.html", width=width, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    for name in ("times", "speedups", "efficiencies"):
        traces = page.locator(f"[data-figure={name}] .scatterlayer .trace")
        assert traces.count() == len(lines(run)) + (name != "times")
    tree = page.locator("#tree tbody tr")
    assert tree.count() == 7
    assert tree.first.locator("td").count() == len(run.cells)
    assert page.locator("#cells tbody tr").count() == len(run.cells)
    assert page.locator("h1").inner_text() == headline(run)
    assert "<gpt2> nano" in page.locator(".facts").inner_text()
    assert "two words" in page.locator("pre").inner_text()
    assert page.locator("#tree .base").count() == 1


def test_a_curve_for_each_strategy_and_number_of_threads() -> None:
    drawn = {line.name: line.cells for line in lines(study((1, 2, 4), (1, 2)))}
    assert list(drawn) == [
        "fork-join, one rank",
        "replicated, 1 thread a rank",
        "overlapped, 1 thread a rank",
        "replicated, 2 threads a rank",
        "overlapped, 2 threads a rank",
    ]
    assert [(c.ranks, c.threads) for c in drawn["overlapped, 2 threads a rank"]] == [
        (1, 2),
        (2, 2),
        (4, 2),
    ]


def test_a_curve_is_told_apart_by_more_than_its_colour() -> None:
    drawn = lines(study((1, 2), (1, 2)))
    assert len({(line.color, line.dash, line.symbol) for line in drawn}) == len(drawn)
    replicated = [line for line in drawn if line.name.startswith("replicated")]
    overlapped = [line for line in drawn if line.name.startswith("overlapped")]
    assert {line.symbol for line in replicated}.isdisjoint(line.symbol for line in overlapped)


def test_the_headline_says_what_becomes_of_the_baseline() -> None:
    said = headline(study((1, 2, 4), (1,)))
    assert said.startswith("4 times the ranks, 3.")
    assert "times the work a second (4×1 overlapped): " in said
    assert headline(study((1,), (1,))).startswith("1×1 sequential: the baseline; ")
