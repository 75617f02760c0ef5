"""The page of a scaling study in a real browser."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from report.browsing import drawn
from report.scale_made import study
from steptime.report.scale_page import behind, headline, lines, write_scale


@pytest.mark.parametrize(
    ("width", "scheme"),
    [(1280, "light"), pytest.param(390, "dark", marks=pytest.mark.slow)],
)
def test_the_page_draws_every_cell(
    open_html: Callable[..., Any], tmp_path: Path, width: int, scheme: str
) -> None:
    run = study((1, 2, 4), (1, 2))
    write_scale(tmp_path / "report.html", run)
    page = drawn(open_html(tmp_path / "report.html", width=width, color_scheme=scheme))
    assert page.evaluate("document.documentElement.scrollWidth") == width
    for name in ("times", "speedups"):
        traces = page.locator(f"[data-figure={name}] .scatterlayer .trace")
        assert traces.count() == len(lines(run)) + 4 * (name != "times")
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
    assert said.startswith("Scaled to 4 times the ranks, <gpt2> nano does 3.")
    assert "times the work a second (4×1 overlapped): " in said
    assert headline(study((1,), (1,))).startswith("1×1 sequential: the baseline; ")


def test_a_strategy_that_falls_behind_is_told_by_the_factor_it_loses_most_in() -> None:
    (sentence,) = behind(study((1, 2, 4), (1,)))
    assert sentence.startswith("4×1 replicated falls behind 4×1 overlapped most by its transfer: ")
