"""What tests do with a page in a browser."""

import time
from typing import Any


def drawn(page: Any) -> Any:
    """The page, once all its figures are there."""
    deadline = time.monotonic() + 600
    while not page.evaluate("performance.getEntriesByName('all-drawn').length"):
        assert time.monotonic() < deadline, "the figures are not drawn"
        page.wait_for_timeout(20)
    return page


def next_frame(page: Any) -> None:
    """Wait until what has changed is drawn, which is in the next frame, however slow that is."""
    page.evaluate(
        "() => new Promise(done => requestAnimationFrame("
        "() => requestAnimationFrame(() => setTimeout(done, 50))))"
    )


def shown_range(page: Any) -> tuple[float, float]:
    next_frame(page)
    low, high = page.evaluate("document.getElementById('step-figure').layout.xaxis.range")
    return low, high


def point_at(page: Any, name: str) -> str:
    """What is told of the first interval of this name that is its step's own."""
    x, y = page.evaluate(
        """name => {
        const { trace } = view, step = currentStep();
        for (const track of step.tracks) for (let i = track.first; i < track.last; i++) {
          if (trace.name(i) !== name || !trace.own(step, track.row, i)) continue;
          const [y0, y1] = span(view.place, track);
          return [milliseconds((trace.start[i] + trace.end[i]) / 2), (y0 + y1) / 2];
        } }""",
        name,
    )
    figure = page.locator("#step-figure .nsewdrag")
    figure.scroll_into_view_if_needed()
    box = figure.bounding_box()
    low, high = shown_range(page)
    bottom, top = page.evaluate("document.getElementById('step-figure').layout.yaxis.range")
    page.mouse.move(
        box["x"] + box["width"] * (x - low) / (high - low),
        box["y"] + box["height"] * (y - top) / (bottom - top),
    )
    page.locator("#tip").wait_for()
    return page.locator("#tip").inner_text()
