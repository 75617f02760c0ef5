"""The page in a real browser: it draws, zooms and fits, and asks the network for nothing."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from report.browsing import drawn, point_at, shown_range
from report.typed import record
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
        write_report(path, record(make_run(*names)), make_timeline(*names))
        return drawn(open_html(path, **options))

    return show


def bars(page: Any) -> int:
    """How many bars the timeline draws."""
    return page.evaluate(
        "document.getElementById('step-figure').data.filter(trace => trace.fill === 'toself')"
        ".reduce((sum, trace) => sum + trace.x.filter(x => x === null).length, 0)"
    )


def test_every_figure_is_drawn(open_page: Callable[..., Any]) -> None:
    page = open_page(*NAMES)
    assert page.locator(".figure:visible .main-svg:first-child").count() == 5
    assert page.locator("[data-figure=parts] .barlayer .point").count() == 3 * 4
    assert page.locator("#matrix .heatmaplayer image").count() == 1
    assert bars(page) > 4 * 9
    assert page.locator("[data-figure=loss] .scatterlayer .trace").count() == 3
    assert page.locator("[data-figure=bytes] .barlayer .point").count() == 2 + 1 + 1


@pytest.mark.slow
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


@pytest.mark.slow
def test_choosing_a_strategy_shows_its_step(open_page: Callable[..., Any]) -> None:
    page = open_page(*NAMES)
    note = playwright.expect(page.locator("#step-note"))
    note.to_contain_text("of replicated is the median")
    assert page.locator("#calls table:visible").inner_text().count("all_gather") == 0
    page.get_by_role("button", name="zoom in").click()
    page.get_by_text("sharded", exact=True).and_(page.locator(".choice span")).click()
    note.to_contain_text("of sharded is the median")
    assert "all_gather" in page.evaluate("view.trace.kinds.map(([name]) => view.trace.names[name])")
    assert shown_range(page)[0] < 0, "another strategy is shown whole"
    assert "all_gather" in page.locator("#calls table:visible").inner_text()


@pytest.mark.slow
def test_the_steps_can_be_chosen_one_by_one(open_page: Callable[..., Any]) -> None:
    page = open_page("replicated")
    first = page.evaluate("view.step")
    page.get_by_role("button", name="the step after").click()
    assert page.evaluate("view.step") == first + 1
    page.locator("#step-choice").select_option("0")
    assert page.evaluate("view.step") == 0
    page.get_by_role("button", name="the step before").click()
    assert page.evaluate("view.step") == 0, "there is none before the first"
    assert page.locator("#step-choice option").count() == 9


@pytest.mark.slow
def test_pointing_at_a_bar_tells_its_name_phase_time_and_bytes(
    open_page: Callable[..., Any],
) -> None:
    page = open_page(*NAMES)
    text = point_at(page, "all_reduce")
    for word in ("all_reduce", "communication", "rank 0", "ms", "842 kB"):
        assert word in text
    assert "compute" in point_at(page, "backward 2")
    page.mouse.move(2, 2)
    playwright.expect(page.locator("#tip")).to_be_hidden()


@pytest.mark.slow
def test_keys_and_the_wheel_zoom(open_page: Callable[..., Any]) -> None:
    page = open_page("replicated")
    whole = shown_range(page)
    length = whole[1] - whole[0]
    page.locator("#step-figure").focus()
    page.keyboard.press("+")
    low, high = shown_range(page)
    assert high - low == pytest.approx(length / 2)
    page.keyboard.press("ArrowRight")
    assert shown_range(page)[0] == pytest.approx(low + length / 8)
    page.keyboard.press("0")
    assert shown_range(page) == pytest.approx(whole)
    box = page.locator("#step-figure .nsewdrag").bounding_box()
    page.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + 20)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.keyboard.up("Control")
    low, high = shown_range(page)
    assert high - low == pytest.approx(0.8 * length)
    assert low == pytest.approx(whole[0] + 0.25 * 0.2 * length, abs=1e-2 * length)


@pytest.mark.slow
def test_search_marks_what_matches_and_goes_from_one_to_the_next(
    open_page: Callable[..., Any],
) -> None:
    page = open_page("replicated")
    note = playwright.expect(page.locator("#search-note"))
    page.get_by_label("search").fill("BACKWARD 2")
    note.to_contain_text("4 match")
    faint = "document.getElementById('step-figure').data.filter(t => t.opacity === 0.16).length"
    assert page.evaluate(faint) > 0
    page.keyboard.press("Enter")
    note.to_contain_text("1 of 4: backward 2, compute, rank")
    low, high = shown_range(page)
    assert high - low < 0.7 * page.evaluate("milliseconds(currentStep().length)")
    page.get_by_label("search").fill("nothing like it")
    note.to_contain_text("nothing of this name")
    page.get_by_label("search").fill("")
    note.to_have_text("")
    assert page.evaluate(faint) == 0


@pytest.mark.slow
def test_one_strategy_has_its_path_and_its_command(open_page: Callable[..., Any]) -> None:
    page = open_page("replicated")
    assert "The critical path is" in page.locator("#path-note").inner_text()
    lines = "document.getElementById('step-figure').data.filter(t => t.line?.width === 2.5).length"
    assert page.evaluate(lines) == 1
    page.get_by_label("critical path").uncheck()
    assert page.evaluate(lines) == 0
    assert not page.get_by_label("messages").is_visible(), "the timeline has none"
    page.get_by_role("button", name="copy").click()
    playwright.expect(page.locator("[data-copy]")).to_have_text(re.compile("copied|selected"))
    assert page.evaluate("getSelection().toString()").startswith("steptime compare --ranks")


@pytest.mark.slow
@pytest.mark.parametrize("names", [NAMES, pytest.param(("replicated",), marks=pytest.mark.slow)])
def test_the_page_never_scrolls_sideways(
    open_page: Callable[..., Any], names: tuple[str, ...]
) -> None:
    page = open_page(*names)
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_function(  # figures follow a change of width
            """width => document.documentElement.scrollWidth === width
            && [...document.querySelectorAll('.figure')].every(
                figure => figure.scrollWidth <= figure.clientWidth)""",
            arg=width,
        )


@pytest.mark.slow
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


@pytest.mark.slow
def test_paper_is_light_and_wide_enough_for_every_figure(open_page: Callable[..., Any]) -> None:
    page = open_page(*NAMES, color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    widths = page.locator(".figure:visible .main-svg:first-child").evaluate_all(
        "all => all.map(svg => svg.getBoundingClientRect().width)"
    )
    assert sorted(widths) == [330, *4 * [660]]
    ground = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(ground) == "rgb(253, 253, 251)"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(ground) == "rgb(20, 22, 26)"


@pytest.mark.slow
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
    deadline = time.monotonic() + 600
    while page.evaluate("scrollY") < before + 80:
        assert time.monotonic() < deadline, "the figure held the page back"
        page.wait_for_timeout(20)


@pytest.mark.slow
def test_the_contents_follow_the_reader(open_page: Callable[..., Any]) -> None:
    page = open_page(*NAMES)
    contents = page.locator(".contents")
    assert contents.locator("a").count() == page.locator("main > section").count()
    here = playwright.expect(contents.locator("[aria-current]"))
    here.to_have_text("The strategies")
    contents.get_by_text("Loss", exact=True).click()
    here.to_have_text("Loss")
    top = contents.bounding_box()["y"]
    assert -1 <= top <= 1, "they stay in sight"
    assert page.locator("#loss h2").bounding_box()["y"] >= contents.bounding_box()["height"] - 1


@pytest.mark.slow
def test_a_table_that_goes_on_says_where(open_page: Callable[..., Any]) -> None:
    page = open_page(*NAMES, width=390)
    table = page.locator("#strategies .scroll")
    hint = playwright.expect(page.locator("#strategies .hint"))
    hint.to_have_text("More to the right →")
    table.evaluate("table => table.scrollTo({ left: table.scrollWidth })")
    hint.to_have_text("")
