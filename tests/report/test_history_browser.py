"""The page of a history in a real browser."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from report.browsing import drawn
from runs_made import environment, training
from steptime.report.history_page import write_history
from steptime.study.history import history


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_page_draws_a_line_for_the_runs_that_compare(
    open_html: Callable[..., Any], tmp_path: Path, width: int, scheme: str
) -> None:
    for number in range(4):
        about = environment(time=f"2026-11-2{number}T18:00:00+00:00", git_revision=f"{number}" * 12)
        training(tmp_path / f"fp32-{number}", [0.1 + number / 100] * 9, environment=about)
        training(tmp_path / f"bf16-{number}", [0.05] * 9, precision="bf16", environment=about)
    (tmp_path / "fp32-0" / "run.json").write_text("{")
    run = history(tmp_path).record() | {"environment": environment()}
    write_history(tmp_path / "page.html", run)
    page = drawn(open_html(tmp_path / "page.html", width=width, color_scheme=scheme))
    assert page.evaluate("document.documentElement.scrollWidth") == width
    traces = page.locator("[data-figure^=history] .scatterlayer .trace")
    assert traces.count() == 2
    points = [traces.nth(at).locator(".points path").count() for at in range(2)]
    assert sorted(points) == [3, 4]
    assert page.locator("#runs tbody tr").count() == 7
    assert "fp32-0" in page.locator(".doubt").first.inner_text()
