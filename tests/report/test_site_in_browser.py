"""The documentation's site in a browser: opened from disk, searched, on a telephone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("built") / "site"
    subprocess.run(
        [Path(sys.executable).with_name("mkdocs"), "build", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        timeout=900,
        check=True,
    )
    return folder


def test_search_finds_a_page_without_a_server(site, open_html):
    page = open_html(site / "index.html")
    page.locator("input.md-search__input").click()
    page.locator("input.md-search__input").press_sequentially("busbw")
    found = page.locator("a.md-search-result__link").first
    found.wait_for()
    assert Path(found.get_attribute("href").split("?")[0]).name in {"bench.html", "glossary.html"}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_a_telephone(site, open_html, scheme):
    for name in ("index", "start", "glossary", "devices", "guides/which-collective"):
        page = open_html(site / f"{name}.html", width=390, color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
        assert page.evaluate("document.body.dataset.mdColorScheme") == (
            "slate" if scheme == "dark" else "default"
        )


def test_the_player_plays_within_its_guide(site, open_html):
    page = open_html(site / "guides" / "which-collective.html")
    player = page.frame_locator("iframe.live")
    player.get_by_role("heading", name="all_reduce ring on 8 ranks").wait_for()


@pytest.mark.parametrize("width", [1280, 390])
def test_a_report_stands_whole_within_its_guide(site, open_html, width):
    page = open_html(site / "guides" / "which-layout.html", width=width)
    report = page.frame_locator("iframe.live")
    report.get_by_role("heading", name="The best of 5,346 layouts").wait_for()
    widths = report.locator("html").evaluate("root => [root.scrollWidth, innerWidth]")
    assert widths[0] <= widths[1]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    with page.expect_navigation():
        page.get_by_role("link", name="Open it on its own").click()
    page.get_by_role("heading", name="The best of 5,346 layouts").wait_for()
