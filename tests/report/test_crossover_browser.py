"""The chart of time against size in a real browser."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from report.browsing import drawn
from steptime.collectives import Schedule
from steptime.collectives.algorithm import algorithms, schedule
from steptime.collectives.price import times
from steptime.report.crossover import chart
from steptime.report.crossover_page import write_chart


def computed(one: Schedule, sizes: Sequence[int]) -> Any:
    return times(one, sizes, 5e-6, 1e-10)


def test_curves_and_crossovers_are_drawn(open_html: Callable[..., Any], tmp_path: Path) -> None:
    shown = chart(
        list(algorithms("broadcast").values()),
        lambda one, blocks: schedule(one, 8, blocks=blocks),
        computed,
        ranks=8,
        source="computed",
        where="<b>5 µs</b>",
    )
    write_chart(tmp_path / "chart.html", shown)
    page = drawn(open_html(tmp_path / "chart.html", width=390, color_scheme="dark"))
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    first = page.locator("[data-figure=times]")
    names = [choice.algorithm for choice in shown.selection.choices]
    assert len(names) == 3
    assert first.locator(".scatterlayer .trace").count() == len(shown.curves) + len(names) + 1
    labels = first.locator(".annotation").all_text_contents()
    assert [label for label in labels if label.endswith("KiB")] == ["118KiB", "4736KiB"]
    assert page.locator("h1").inner_text().startswith("broadcast, 8 ranks: binomial up to 118KiB")
    ratios = page.evaluate("figures.ratios.data.map(({ y }) => y)")
    assert np.min(ratios, axis=0) == pytest.approx(1)
    assert page.locator("pre").inner_text().strip() == str(shown.selection)
    assert "<b>5 µs</b>" in page.locator(".facts").inner_text()
