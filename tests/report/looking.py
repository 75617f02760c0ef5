"""How a page looks in a real browser, judged by the boxes and the colours of its texts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from report.browsing import drawn, next_frame

MOST_BYTES = 2_000_000
_JUDGE = Path(__file__).with_suffix(".js").read_text()


def flaws(page: Any) -> list[str]:
    """What a reader sees wrong in an open page, a sentence each.

    Text over text, text that is cut off or beside the page, text whose contrast with what is
    behind it is below 4.5, and a page that scrolls sideways.
    """
    if page.locator("[data-figure]").count():
        drawn(page)
    next_frame(page)
    found: list[str] = page.evaluate(_JUDGE)
    return found


def judge(open_html: Callable[..., Any], path: Path, *, dark: bool) -> list[str]:
    """The flaws of a file on a screen of 1280×800 and of 390×844, by the width."""
    page = open_html(path, color_scheme="dark" if dark else "light")
    found = []
    for width, height in ((1280, 800), (390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        page.reload()
        found += [f"{width} px: {flaw}" for flaw in flaws(page)]
    return found
