"""The page of simulated steps in a real browser: the links follow the strategy that is chosen."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from report.browsing import drawn
from report.typed import record
from steptime.report import write_report
from steptime.timeline import Timeline

NAMES = ("server", "replicated")


def test_the_links_are_those_of_the_strategy_that_is_chosen(
    open_html: Callable[..., Any],
    tmp_path: Path,
    make_simulated: Callable[..., dict[str, Any]],
    make_timeline: Callable[..., Timeline],
) -> None:
    run = make_simulated(*NAMES)
    server = run["strategies"]["server"]["link_use"]
    server["links"] = ["the one into host0", "b", "c"]
    server["utilisation"] = [[1.0, 0.5, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [0.2, 0.0, 0.0, 0.0]]
    path = tmp_path / "report.html"
    write_report(path, record(run), replace(make_timeline(*NAMES), source="simulated"))
    page = drawn(open_html(path, width=390))
    page.wait_for_selector("#links-figure .heatmaplayer image")
    note, ticks = page.locator("#links-note"), page.locator("#links-figure .ytick text")
    assert "a step of replicated uses, over time" in note.inner_text()
    page.get_by_text("server", exact=True).and_(page.locator(".choice span")).click()
    assert "a step of server uses, over time" in note.inner_text()
    assert ticks.all_text_contents() == ["the one into host0", "b", "c"]
    assert page.locator(".figure:visible .main-svg:first-child").count() == 4
    assert page.evaluate("document.documentElement.scrollWidth") == 390
