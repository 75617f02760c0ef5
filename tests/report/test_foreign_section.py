"""A figure of the page is a module and its HTML, which the page finds by themselves."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from report.typed import record
from steptime.report import sections, write_report
from steptime.report.page import context
from steptime.report.subject import Run
from steptime.timeline import Timeline

MODULE = """
from steptime.report.section import Section

def shown(page):
    if "server" not in page.strategies:
        return None
    return {"hashes": page.strategies["server"].parameter_hash, "figures": {"mine": {"data": []}}}

SECTION = Section("foreign_hashes", 45, shown)
"""
HTML = """<section id="hashes"><h2>Parameters</h2>
<p>{{ hashes | join(" ") }}</p><div class="figure" data-figure="mine"></div></section>
"""


def test_a_section_from_another_folder_is_shown_where_it_applies(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make_run: Callable[..., dict[str, Any]],
    make_timeline: Callable[..., Timeline],
) -> None:
    folder = tmp_path / "sections"
    folder.mkdir()
    (folder / "foreign_hashes.py").write_text(MODULE)
    (folder / "foreign_hashes.html").write_text(HTML)
    monkeypatch.setattr(sections, "__path__", [*sections.__path__, str(folder)])
    page = tmp_path / "report.html"
    write_report(page, record(make_run("server")), make_timeline("server"))
    text = page.read_text()
    assert "<p>9f2c 9f2c 9f2c 9f2c</p>" in text
    shown = context([Run("x", record(make_run("server")), make_timeline("server"))])
    assert shown["figures"]["mine"] == {"data": []}
    assert text.index('id="parts"') < text.index('id="hashes"') < text.index('id="timeline"')
    without = context([Run("x", record(make_run("sharded")), make_timeline("sharded"))])
    assert "foreign_hashes" not in without["sections"]
