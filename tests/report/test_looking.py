"""The judge of pages sees what is wrong in one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from report.looking import flaws

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8">
<style>body {{ margin: 0; background: #fff; color: #111; font: 16px/1.5 sans-serif }}</style>
{}</html>"""


def found_in(open_html: Callable[..., Any], folder: Path, body: str) -> list[str]:
    path = folder / "page.html"
    path.write_text(PAGE.format(body))
    return flaws(open_html(path, width=390))


def test_a_sound_page_has_no_flaw(open_html: Callable[..., Any], tmp_path: Path) -> None:
    body = """<p>one</p><p>two</p><div style="width: 100px; overflow: auto"><p
        style="white-space: nowrap">a line that is longer than its place and scrolls</p></div>
        <svg width="200" height="40"><rect width="200" height="40" fill="#000"/>
        <text x="10" y="25" fill="#fff">white on black</text></svg>"""
    assert found_in(open_html, tmp_path, body) == []


def test_every_kind_of_flaw_is_told(open_html: Callable[..., Any], tmp_path: Path) -> None:
    body = """<p style="color: #aaa">pale</p>
        <p style="position: absolute; top: 80px">below</p>
        <p style="position: absolute; top: 84px">above</p>
        <div style="position: absolute; top: 200px; width: 60px; overflow: hidden"><p
        style="white-space: nowrap">a line that is cut</p></div>
        <p style="position: absolute; top: 300px; left: 350px; width: 200px">a wide line</p>
        <svg style="position: absolute; top: 400px" width="200" height="40">
        <rect width="200" height="40" fill="#333"/>
        <text x="10" y="25" fill="#111">black on grey</text></svg>"""
    found = found_in(open_html, tmp_path, body)
    assert any(flaw.startswith('contrast 2.3 of "pale"') for flaw in found)
    assert 'text over text: "below" and "above"' in found
    assert 'cut off: "a line that is cut"' in found
    assert 'beside the page: "a wide line"' in found
    assert "the page is 550 px wide" in found
    assert any("black on grey" in flaw for flaw in found)
    assert len(found) == 6
