import json
import math
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from steptime.report import write_report
from steptime.report.figures import bytes_figure, curves, loss_figure, parts_figure
from steptime.report.one_step import MAX_INTERVALS, step_figures
from steptime.report.page import headline
from steptime.report.table import percent, strategy_table
from steptime.timeline import Phase, Recorder, Timeline, merge

NAMES = ("server", "replicated", "sharded")
SECTIONS = ["strategies", "parts", "loss", "timeline", "bytes", "environment"]
LOADING = {"src", "href", "action", "data", "poster", "srcset", "background", "xlink:href"}

MakeRun = Callable[..., dict[str, Any]]
MakeTimeline = Callable[..., Timeline]


class Page(HTMLParser):
    """The tags of a page with their attributes, and the text within each kind of tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, list[str]] = {}
        self.open = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open = tag

    def handle_data(self, data: str) -> None:
        self.text.setdefault(self.open, []).append(data)

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)

    def figures(self) -> dict[str, Any]:
        at = next(i for i, text in enumerate(self.text["script"]) if text.startswith("{"))
        return json.loads(self.text["script"][at], parse_constant=pytest.fail)


@pytest.fixture
def page_of(tmp_path: Path) -> Callable[[dict[str, Any], Timeline], Page]:
    def write(run: dict[str, Any], timeline: Timeline) -> Page:
        write_report(tmp_path / "report.html", run, timeline)
        return Page((tmp_path / "report.html").read_text())

    return write


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def colored(figure: Any) -> Any:
    """The figure as the page draws it: CSS variables replaced by colours."""
    if isinstance(figure, dict):
        return {
            key: "#123456"
            if key.endswith("color") and str(value).startswith("--")
            else colored(value)
            for key, value in figure.items()
        }
    return [colored(item) for item in figure] if isinstance(figure, list) else figure


def test_the_page_loads_nothing(
    page_of: Callable[..., Page], make_run: MakeRun, make_timeline: MakeTimeline
) -> None:
    page = page_of(make_run(*NAMES), make_timeline(*NAMES))
    for tag, attributes in page.tags:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base"}
        assert not LOADING & attributes.keys(), (tag, attributes)
    assert "@import" not in "".join(page.text["style"])
    assert "url(" not in "".join(page.text["style"])
    policy = next(a["content"] for t, a in page.tags if a.get("http-equiv"))
    assert policy is not None
    assert "default-src 'none'" in policy


def test_it_is_one_small_file_and_its_sections_are_in_order(
    tmp_path: Path, make_run: MakeRun, make_timeline: MakeTimeline
) -> None:
    write_report(tmp_path / "report.html", make_run(*NAMES), make_timeline(*NAMES))
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").stat().st_size < 6e6
    page = Page((tmp_path / "report.html").read_text())
    assert [a["id"] for tag, a in page.tags if tag == "section"] == SECTIONS
    assert "steptime compare gpt2 --ranks 4 --note 'two words'" in page.text["code"]
    assert "2.13.0" in page.text["dd"]


def test_headline_names_the_winner_its_speed_and_what_bounds_it(make_run: MakeRun) -> None:
    assert plain(headline(make_run(*NAMES))) == (
        "replicated is the fastest here: 34.1 ms a step, 1.40× server; "
        "compute bounds it (71 %), and 22 % of the step is exposed communication"
    )


def test_headline_says_when_communication_bounds_the_step(make_run: MakeRun) -> None:
    run = make_run(*NAMES)
    run["strategies"]["replicated"]["exposed_comm_s"] = 0.0266
    assert plain(headline(run)).endswith(
        "; communication bounds it: 50 % of the step is exposed communication"
    )


def test_one_strategy_is_compared_with_nothing(
    page_of: Callable[..., Page], make_run: MakeRun, make_timeline: MakeTimeline
) -> None:
    page = page_of(make_run("replicated"), make_timeline("replicated"))
    assert plain(page.text["h1"][0]).startswith(
        "A step of replicated takes 34.1 ms; compute bounds"
    )
    shown = " ".join(t for tag in ("h1", "h2", "th", "p", "td") for t in page.text.get(tag, ()))
    for word in ("fastest", "against", "server", "best", "strategies"):
        assert word not in shown
    assert page.count("fieldset") == 0
    ranks = page.figures()["parts"]["layout"]["yaxis"]["ticktext"]
    assert ranks[1:] == [f"rank {rank} on a<br><b>34.1 ms</b>" for rank in range(4)]


def test_hostile_names_stay_text(
    page_of: Callable[..., Page], make_run: MakeRun, make_timeline: MakeTimeline
) -> None:
    hostile = "<script>alert(1)</script>"
    run = make_run(*NAMES)
    run["environment"]["host"] = hostile
    run["data"] = run["model"] = "</title>" + hostile
    run["strategies"][hostile] = run["strategies"].pop("sharded")
    timeline = make_timeline("server", "replicated", hostile)
    page = page_of(run, timeline)
    assert page.count("script") == 3
    assert hostile in page.text["dd"]
    shown = page.figures()
    assert shown["steps"][2]["note"].startswith(f"Step 4 of 9 of {hostile}")
    assert shown["loss"]["data"][2]["name"] == "&lt;script&gt;alert(1)&lt;/script&gt;"


def test_the_best_of_each_column_is_marked(make_run: MakeRun) -> None:
    table = strategy_table(make_run(*NAMES)["strategies"])
    marked = {
        name: [column.title for column, cell in zip(table.columns, cells, strict=True) if cell.best]
        for name, cells in table.rows
    }
    assert marked["server"] == marked["sharded"] == []
    assert marked["replicated"] == [
        "median",
        "exposed communication",
        "sent per rank",
        "most into one rank",
        "on the wire",
        "tokens/s",
        "against server",
    ]
    assert sum(span for _, span in table.groups) == len(table.columns)


def test_wire_bytes_that_nobody_measured_leave_no_column(
    page_of: Callable[..., Page], make_run: MakeRun, make_timeline: MakeTimeline
) -> None:
    run = make_run(*NAMES)
    for entry in run["strategies"].values():
        entry["wire_bytes_sent_per_rank"] = entry["wire_bytes_received_per_rank"] = None
    page = page_of(run, make_timeline(*NAMES))
    assert "on the wire" not in page.text["th"]
    assert page.figures()["bytes"]["data"][2]["x"] == []


@pytest.mark.parametrize(
    ("fraction", "text"), [(0.0, "0 %"), (0.001, "< 1 %"), (0.215, "22 %"), (1.0, "100 %")]
)
def test_percent(fraction: float, text: str) -> None:
    assert plain(percent(fraction)) == text


def test_plotly_knows_every_property_of_every_figure(
    page_of: Callable[..., Page], make_run: MakeRun, make_timeline: MakeTimeline
) -> None:
    shown = page_of(make_run(*NAMES), make_timeline(*NAMES)).figures()
    assert len(shown["steps"]) == 3
    for figure in (shown["parts"], shown["loss"], shown["bytes"], *shown["steps"]):
        go.Figure(data=colored(figure["data"]), layout=colored(figure["layout"]))


def test_the_parts_of_a_bar_add_up_to_the_step(make_run: MakeRun) -> None:
    entry = make_run("server")["strategies"]["server"]
    figure = parts_figure([("server", "47.8 ms", entry)])
    assert sum(trace["x"][0] for trace in figure["data"]) == pytest.approx(47.8)
    assert len({trace["marker"]["color"] for trace in figure["data"]}) == 4


def test_curves_that_agree_share_the_line_and_the_page_says_why(
    page_of: Callable[..., Page], make_run: MakeRun, make_timeline: MakeTimeline
) -> None:
    run = make_run(*NAMES)
    stripes = [
        [float(part.removesuffix("px")) for part in curve.dash.split(",")]
        for curve in curves(run["strategies"])
    ]
    for at, (dash, before, drawn, after) in enumerate(stripes):
        assert (dash, before, drawn) == (0, at * drawn, drawn)
        assert before + drawn + after == 3 * drawn
    shown = "".join(page_of(run, make_timeline(*NAMES)).text["p"])
    assert "lie on one another because every strategy trains the same model" in shown


def test_curves_that_differ_get_dashes_of_their_own(
    page_of: Callable[..., Page], make_run: MakeRun, make_timeline: MakeTimeline
) -> None:
    run = make_run(*NAMES)
    run["strategies"]["sharded"]["loss"][7] *= 1.25
    assert len({curve.dash for curve in curves(run["strategies"])}) == 3
    shown = plain("".join(page_of(run, make_timeline(*NAMES)).text["p"]))
    assert "lie on one another" not in shown
    assert "differ by up to 20 %" in shown


def test_a_loss_that_is_not_a_number_is_a_gap(
    page_of: Callable[..., Page], make_run: MakeRun, make_timeline: MakeTimeline
) -> None:
    run = make_run(*NAMES)
    run["strategies"]["sharded"]["loss"][7:] = 33 * [math.nan]
    assert loss_figure(run["strategies"])["data"][2]["y"][6:] == [
        pytest.approx(4.62299),
        *33 * [None],
    ]
    page = page_of(run, make_timeline(*NAMES))
    page.figures()
    assert "not a finite number" in "".join(page.text["p"])


def test_bytes_set_rank_0_apart(make_run: MakeRun) -> None:
    first, others, wire = bytes_figure(make_run(*NAMES)["strategies"])["data"]
    assert len(first["x"]) == 3
    assert len(others["x"]) == 9
    assert first["x"][0] == 3 * others["x"][0]
    assert max(wire["x"]) == pytest.approx(1.02 * max(first["x"]))
    assert sorted(wire["y"]) == sorted(first["y"] + others["y"])


def bars(figure: dict[str, Any]) -> list[tuple[str, float, float, float, float]]:
    """Name, begin, end, top and bottom of every bar of a step."""
    return [
        (trace["name"], base, base + x, y - width / 2, y + width / 2)
        for trace in figure["data"]
        for base, x, y, width in zip(
            trace["base"], trace["x"], trace["y"], trace["width"], strict=True
        )
    ]


def test_the_step_shown_is_the_median_one() -> None:
    recorders = [Recorder(), Recorder()]
    for rank, recorder in enumerate(recorders):
        for step, milliseconds in enumerate((90, 30, 10, 40, 20)):
            begin = step + rank * 0.001
            recorder.step = step
            recorder.add("step", "s", Phase.STEP, begin, begin + milliseconds / 1e3)
            recorder.add("compute", f"forward {step}", Phase.COMPUTE, begin, begin + 0.005)
    timeline = merge([recorder.timeline(rank, 2) for rank, recorder in enumerate(recorders)])
    figure = step_figures(timeline, ["s", "absent"])["s"]
    assert {name for name, *_ in bars(figure)} == {"forward 1"}
    assert figure["note"].startswith("Step 2 of 5 of s, its median step: 31.0 ms")
    assert [(s["x0"], s["x1"]) for s in figure["layout"]["shapes"]] == [
        pytest.approx((0, 30)),
        pytest.approx((1, 31)),
    ]


def test_bars_of_a_step_never_cover_one_another(make_timeline: MakeTimeline) -> None:
    figure = step_figures(make_timeline(*NAMES), ["replicated"])["replicated"]
    drawn = bars(figure)
    assert len(drawn) > 4 * 9
    for at, (_, begin, end, top, bottom) in enumerate(drawn):
        for _, begin2, end2, top2, bottom2 in drawn[at + 1 :]:
            apart_in_time = begin2 >= end - 2e-4 or begin >= end2 - 2e-4
            assert apart_in_time or top2 >= bottom - 2e-3 or top >= bottom2 - 2e-3


def test_comm_is_beneath_compute_on_every_rank(make_timeline: MakeTimeline) -> None:
    layout = step_figures(make_timeline(*NAMES), ["replicated"])["replicated"]["layout"]
    ticks = dict(zip(layout["yaxis"]["ticktext"], layout["yaxis"]["tickvals"], strict=False))
    assert list(layout["yaxis"]["ticktext"][:3]) == [
        "<b>rank 0</b>  compute",
        "comm",
        "<b>rank 1</b>  compute",
    ]
    low, high = layout["yaxis"]["range"]
    assert low > ticks["<b>rank 3</b>  compute"] > ticks["<b>rank 0</b>  compute"] > high


def test_what_reaches_over_the_step_is_cut_to_the_window_but_hovers_whole(
    make_timeline: MakeTimeline,
) -> None:
    figure = step_figures(make_timeline("sharded"), ["sharded"])["sharded"]
    low, high = figure["layout"]["xaxis"]["range"]
    assert low == pytest.approx(-0.04 * (high + low))
    assert all(low - 1e-3 <= begin <= end <= high + 1e-3 for _, begin, end, _, _ in bars(figure))
    gathers = [trace for trace in figure["data"] if trace["name"] == "all_gather"]
    own = next(trace for trace in gathers if trace["opacity"] == 1)
    assert max(own["x"]) < 10
    assert all(
        base + x == pytest.approx(high, abs=1e-3)
        for base, x in zip(own["base"], own["x"], strict=True)
    )
    assert all(text == "10.0 ms · 3.37 MB" for _, text in own["customdata"])
    before = next(trace for trace in gathers if trace["opacity"] < 1)
    assert max(before["base"]) < 0


def test_many_ranks_are_cut_to_the_first_and_the_page_says_so(make_timeline: MakeTimeline) -> None:
    figure = step_figures(make_timeline("server", ranks=40, steps=1), ["server"])["server"]
    assert figure["note"].endswith("The first 32 of 40 ranks are shown.")
    assert len(figure["layout"]["shapes"]) == 32


def test_a_step_of_very_many_intervals_keeps_the_page_small() -> None:
    recorders = [Recorder() for _ in range(4)]
    each = MAX_INTERVALS * 3 // 8
    for recorder in recorders:
        recorder.add("step", "s", Phase.STEP, 0.0, 1.0)
        for begin in np.linspace(0, 0.9, each):
            recorder.add("compute", "op", Phase.COMPUTE, begin, begin + 0.1 / each)
    timeline = merge([recorder.timeline(rank, 4) for rank, recorder in enumerate(recorders)])
    figure = step_figures(timeline, ["s"])["s"]
    assert len(bars(figure)) == 2 * each
    assert figure["note"].endswith("The first 2 of 4 ranks are shown.")


def test_a_run_without_steps_says_so(
    page_of: Callable[..., Page], make_run: MakeRun, make_timeline: MakeTimeline
) -> None:
    page = page_of(make_run("server"), make_timeline("replicated"))
    assert "This run left no steps in its timeline." in page.text["p"]
    assert page.figures()["steps"] == []


def test_importing_the_report_is_light() -> None:
    heavy = "import sys, steptime.report; print({'torch', 'plotly', 'jinja2'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
