"""The page in a real browser: it draws, zooms and fits, and asks the network for nothing."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steptime.report import write_report
from steptime.timeline import Timeline

playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")

NAMES = ("server", "replicated", "sharded")


@pytest.fixture
def open_page(
    open_html: Callable[..., Any],
    tmp_path: Path,
    make_run: Callable[..., dict[str, Any]],
    make_timeline: Callable[..., Timeline],
) -> Callable[..., Any]:
    """Opens the page of a run."""

    def show(*names: str, **options: Any) -> Any:
        path = tmp_path / "report.html"
        write_report(path, make_run(*names), make_timeline(*names))
        page = open_html(path, **options)
        page.wait_for_selector("#step-figure .barlayer .point")
        return page

    return show


def shown_range(page: Any) -> tuple[float, float]:
    low, high = page.evaluate("document.getElementById('step-figure').layout.xaxis.range")
    return low, high


def test_every_figure_is_drawn(open_page: Callable[..., Any]) -> None:
    page = open_page(*NAMES)
    assert page.locator(".figure .main-svg:first-child").count() == 4
    assert page.locator("[data-figure=parts] .barlayer .point").count() == 3 * 4
    assert page.locator("[data-figure=loss] .scatterlayer .trace").count() == 3
    assert page.locator("[data-figure=bytes] .barlayer .point").count() == 3 * 4


def test_drag_and_buttons_zoom_the_timeline(open_page: Callable[..., Any]) -> None:
    page = open_page(*NAMES)
    whole = shown_range(page)
    figure = page.locator("#step-figure .nsewdrag")
    figure.scroll_into_view_if_needed()
    box = figure.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.25 * box["width"], middle)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.5 * box["width"], middle, steps=4)
    page.mouse.up()
    low, high = shown_range(page)
    length = whole[1] - whole[0]
    assert low == pytest.approx(whole[0] + 0.25 * length, abs=0.02 * length)
    assert high == pytest.approx(whole[0] + 0.5 * length, abs=0.02 * length)
    page.get_by_role("button", name="zoom in").click()
    nearer = shown_range(page)
    assert nearer[1] - nearer[0] == pytest.approx((high - low) / 2)
    page.get_by_role("button", name="whole step").click()
    assert shown_range(page) == pytest.approx(whole)
    page.get_by_role("button", name="later").click()
    assert shown_range(page) == pytest.approx([edge + 0.4 * length for edge in whole])
    page.mouse.dblclick(box["x"] + 0.5 * box["width"], middle)
    assert shown_range(page) == pytest.approx(whole)


def test_choosing_a_strategy_shows_its_step(open_page: Callable[..., Any]) -> None:
    page = open_page(*NAMES)
    assert "of replicated, its median step" in page.locator("#step-note").inner_text()
    page.get_by_role("button", name="zoom in").click()
    page.get_by_text("sharded", exact=True).and_(page.locator(".choice span")).click()
    assert "of sharded, its median step" in page.locator("#step-note").inner_text()
    gathers = "document.getElementById('step-figure').data.map(trace => trace.name)"
    assert "all_gather" in page.evaluate(gathers)
    assert shown_range(page)[0] < 0, "another strategy is shown whole"


def test_pointing_at_a_bar_tells_its_name_phase_time_and_bytes(
    open_page: Callable[..., Any],
) -> None:
    page = open_page(*NAMES)
    page.locator("#step-figure").scroll_into_view_if_needed()
    names = page.evaluate("document.getElementById('step-figure').data.map(trace => trace.name)")
    trace = page.locator("#step-figure .barlayer .trace").nth(names.index("all_reduce"))
    trace.locator(".point").first.hover(force=True)
    hover = page.locator("#step-figure .hovertext")
    hover.wait_for()
    text = hover.inner_html()
    for word in ("all_reduce", "communication", "rank 0", "ms", "842 kB"):
        assert word in text


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("names", [NAMES, ("replicated",)])
def test_the_page_never_scrolls_sideways(
    open_page: Callable[..., Any], width: int, names: tuple[str, ...]
) -> None:
    page = open_page(*names, width=width)
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.locator(".figure").evaluate_all(
        "all => all.every(figure => figure.scrollWidth <= figure.clientWidth)"
    )


def test_figures_follow_a_change_to_dark_and_keep_their_zoom(
    open_page: Callable[..., Any],
) -> None:
    page = open_page(*NAMES, color_scheme="light")
    ink = playwright.expect(page.locator("[data-figure=parts] .ytick text").first)
    ink.to_have_css("fill", "rgb(27, 29, 33)")
    page.get_by_role("button", name="zoom in").click()
    zoomed = shown_range(page)
    page.emulate_media(color_scheme="dark")
    ink.to_have_css("fill", "rgb(233, 234, 236)")
    assert shown_range(page) == pytest.approx(zoomed)


def test_paper_is_light_and_wide_enough_for_every_figure(open_page: Callable[..., Any]) -> None:
    page = open_page(*NAMES, color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    widths = page.locator(".figure .main-svg:first-child").evaluate_all(
        "all => all.map(svg => svg.getBoundingClientRect().width)"
    )
    assert widths == 4 * [660]
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(253, 253, 251)"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(ground) == "rgb(20, 22, 26)"


def test_a_finger_on_a_figure_scrolls_the_page(open_page: Callable[..., Any]) -> None:
    page = open_page(*NAMES, width=390, has_touch=True, is_mobile=True)
    page.locator("#step-figure").evaluate("figure => figure.scrollIntoView({block: 'center'})")
    before = page.evaluate("scrollY")
    session = page.context.new_cdp_session(page)
    for y in range(400, 250, -10):
        kind = "touchStart" if y == 400 else "touchMove"
        touch = {"type": kind, "touchPoints": [{"x": 250, "y": y}]}
        session.send("Input.dispatchTouchEvent", touch)
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    deadline = time.monotonic() + 10
    while page.evaluate("scrollY") < before + 80:
        assert time.monotonic() < deadline, "the figure held the page back"
        page.wait_for_timeout(20)
