"""The pages of bench, tune, diff, check and show pipeline in a real browser."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.command import here
from report.verb_pages import PAGES, SIZES, bench_run, check_run, diff_run, tune_run
from steptime.report.bench_page import write_bench
from steptime.report.check_page import write_check


@pytest.mark.parametrize("kind", PAGES)
def test_each_begins_with_its_answer_and_fits_both_widths(
    open_html: Callable[..., Any], tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "report.html"
    PAGES[kind](path)
    page = open_html(path, width=1280, color_scheme="light")
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        for svg in page.locator("svg.chart:visible").all():
            assert svg.bounding_box()["width"] <= width
    assert page.locator("h1").inner_text()
    assert page.locator("h1 ~ .doubt").inner_text()
    assert path.stat().st_size < 200_000


@pytest.mark.slow
def test_rates_are_drawn_by_algorithm_and_the_fastest_is_shaded(
    open_html: Callable[..., Any], tmp_path: Path
) -> None:
    write_bench(tmp_path / "a.html", bench_run())
    page = open_html(tmp_path / "a.html")
    headline = page.locator("h1").inner_text()
    assert headline.startswith("all_reduce on 4 ranks: builtin is the fastest at 1, ring")
    assert page.locator(".doubt").inner_text().startswith("At 1 of 3 sizes several are level")
    assert page.locator(".wide .curve").count() == 2
    told = page.locator(".wide circle title").all_text_contents()
    assert "ring, 4MiB: 3.15 GB/s" in told
    # From left to right and, faster at each size, from below to above.
    places = page.evaluate(
        "[...document.querySelectorAll('.wide circle')].map((one) => [one.cx, one.cy]"
        ".map((at) => at.baseVal.value)).slice(0, 3)"
    )
    assert [x for x, _ in places] == sorted(x for x, _ in places)
    assert [y for _, y in places] == sorted((y for _, y in places), reverse=True)
    shaded = page.locator("td.best").all_inner_texts()
    assert shaded == ["builtin", "ring"]


@pytest.mark.slow
def test_a_wrong_result_stands_first_and_in_red(
    open_html: Callable[..., Any], tmp_path: Path
) -> None:
    write_bench(tmp_path / "a.html", bench_run(wrong=2))
    page = open_html(tmp_path / "a.html")
    assert page.locator("h1.unfit").inner_text() == "12 elements of the results are WRONG"


@pytest.mark.slow
def test_a_selection_is_told_in_words_and_as_the_backend_reads_it(
    open_html: Callable[..., Any], tmp_path: Path
) -> None:
    write_bench(tmp_path / "a.html", tune_run())
    page = open_html(tmp_path / "a.html")
    assert page.locator("h1").inner_text().endswith("builtin up to 64KiB, ring above")
    assert page.locator("td.best").count() == len(SIZES)
    variable = "export STEPTIME_ALL_REDUCE='builtin:0-64KiB;ring:64KiB-max'"
    assert variable in page.locator("pre").first.inner_text()


@pytest.mark.slow
def test_a_finding_has_its_ranks_places_stacks_and_mend(
    open_html: Callable[..., Any], tmp_path: Path
) -> None:
    write_check(tmp_path / "a.html", check_run())
    page = open_html(tmp_path / "a.html")
    assert page.locator("h1.unfit").inner_text() == "Mismatch: ranks 0, 1"
    finding = page.locator(".finding")
    assert "ranks 0, 1, for 1.2 s" in finding.inner_text()
    assert "Mend: Let every rank" in finding.inner_text()
    assert "/home/me/branch.py:7" in finding.locator("table").inner_text()
    assert finding.locator("details").count() == 1
    finding.locator("summary").click()
    assert "branch.py:6 in <module>" in finding.locator("pre").inner_text()


def test_a_check_that_found_nothing_says_so(tmp_path: Path) -> None:
    alone = {name: value for name, value in check_run(found=False).items() if name != "ranks"}
    write_check(tmp_path / "a.html", alone)
    text = (tmp_path / "a.html").read_text()
    assert "<h1>Nothing was found</h1>" in text
    assert "What did not happen in this run cannot be found in it." in text


@pytest.mark.slow
def test_a_diff_draws_each_interval_where_it_lies(
    open_html: Callable[..., Any], tmp_path: Path
) -> None:
    PAGES["diff"](tmp_path / "a.html")
    page = open_html(tmp_path / "a.html")
    assert page.locator("h1").inner_text().startswith("B is 20.0")
    step = page.locator(".wide g").first
    assert step.get_attribute("class") == "sure"
    line, dot = (step.locator(kind) for kind in ("line", "circle"))
    low, high = (float(line.get_attribute(end)) for end in ("x1", "x2"))
    zero = float(page.locator(".wide .zero").get_attribute("x1"))
    assert zero < low < float(dot.get_attribute("cx")) < high


@pytest.mark.slow
def test_the_bubble_of_a_stage_lies_before_between_and_after(
    open_html: Callable[..., Any], tmp_path: Path
) -> None:
    PAGES["pipeline"](tmp_path / "a.html")
    page = open_html(tmp_path / "a.html")
    rows = [row.split("\t") for row in page.locator("#stages tbody tr").all_inner_texts()]
    assert [row[0] for row in rows] == ["0", "1", "2", "3"]
    assert [int(row[2]) for row in rows] == [0, 1, 2, 3]
    slots = {sum(map(int, row[1:5])) for row in rows}
    assert len(slots) == 1
    assert page.locator(".picture svg rect.idle").count() == 4


@pytest.mark.parametrize("kind", ["bench", "tune", "check", "diff"])
def test_report_makes_it_again(tmp_path: Path, kind: str) -> None:
    made = {"bench": bench_run, "tune": tune_run, "check": check_run}
    run = made[kind]() if kind in made else diff_run(tmp_path)
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps(run))
    done = here("report", str(folder), folder=tmp_path)
    assert (done.code, done.out) == (0, f"report: {folder / 'report.html'}\n")
    assert "</html>" in (folder / "report.html").read_text()


def test_diff_and_show_pipeline_leave_their_pages(tmp_path: Path) -> None:
    diff_run(tmp_path)
    done = here("diff", "a", "b", "--out", "out", folder=tmp_path)
    assert done.code == 0
    assert done.out.endswith("run: out\nreport: out/report.html\n")
    assert "B is 20.0" in (tmp_path / "out" / "report.html").read_text()
    assert json.loads((tmp_path / "out" / "run.json").read_text())["different"] is True
    shown = here("show", "pipeline", "--html", "p.html", folder=tmp_path)
    assert shown.out.endswith("page: p.html\n")
    assert "27.3 % of the step is bubble" in (tmp_path / "p.html").read_text()
