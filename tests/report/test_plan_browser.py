"""The page of a plan in a real browser."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import steptime as st
from report.browsing import drawn
from steptime.api.planning import PlanResult
from steptime.report.plan_lines import headline, near_best, some_of


@pytest.fixture(scope="module")
def planned() -> PlanResult:
    return st.plan("llama3-8B", "dgx-h100-pod", gpus=[32, 64], batch=128, tokens_per_row=8192)


@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), pytest.param(390, "dark", marks=pytest.mark.slow)]
)
def test_the_page_draws_the_front_the_space_and_the_account(
    open_html: Callable[..., Any], tmp_path: Path, planned: PlanResult, width: int, scheme: str
) -> None:
    run = planned.record
    planned.report(tmp_path / "report.html")
    page = drawn(open_html(tmp_path / "report.html", width=width, color_scheme=scheme))
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.locator("h1").inner_text() == headline(run)
    assert page.locator("#best tbody tr").count() == 10
    bars = page.locator("[data-figure=account] .barlayer .point")
    assert bars.count() == len(run.best[0].terms) + 1
    assert page.locator("[data-figure=map] .heatmaplayer image").count() == 1
    points = page.locator("[data-figure=front] .scatterlayer .trace").first.locator(".point")
    assert points.count() == len(near_best(run))
    assert page.locator("[data-figure=gpus] .scatterlayer .trace").count() == 2
    assert page.locator("#fronts table").count() == 2


@pytest.mark.slow
def test_the_page_of_what_fits_nowhere_says_so_first(
    open_html: Callable[..., Any], tmp_path: Path
) -> None:
    found = st.plan("llama3-70B", "dgx-a100", batch=64, tokens_per_row=4096)
    found.report(tmp_path / "report.html")
    page = drawn(open_html(tmp_path / "report.html", width=1280))
    assert page.locator("h1").inner_text().startswith("DOES NOT FIT: ")
    assert page.locator("#best tbody tr.unfit").count() == 10
    assert page.locator("#fronts").count() == 0
    assert page.locator("[data-figure=map] .annotation").count() == len(found.record.cells)


def test_a_front_is_thinned_evenly_and_keeps_its_ends(planned: PlanResult) -> None:
    front = near_best(planned.record)
    shown = some_of(front, 4)
    assert len(shown) == 4
    assert (shown[0], shown[-1]) == (front[0], front[-1])
    assert some_of(front[:3], 4) == front[:3]
