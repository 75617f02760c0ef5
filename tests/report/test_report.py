import json
import math
import re
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from report.looking import MOST_BYTES
from report.packed import Bar, unpacked, unpacked_bytes
from report.typed import figures, record
from steptime.report import write_report
from steptime.report.palette import parts_of
from steptime.report.sections.bytes import bytes_figure
from steptime.report.sections.loss import curves, loss_figure
from steptime.report.sections.parts import parts_figure
from steptime.report.sections.strategies import percent, strategy_table
from steptime.report.sentences import doubt, headline
from steptime.report.trace import MAX_BYTES, MAX_INTERVALS, traces
from steptime.timeline import INTERVAL, MESSAGE, Phase, Recorder, Timeline, merge

NAMES = ("server", "replicated", "sharded")
SECTIONS = [
    "strategies",
    "parts",
    "timeline",
    "matrix",
    "calls",
    "loss",
    "efficiency",
    "bytes",
    "environment",
]
LOADING = {"src", "href", "action", "data", "poster", "srcset", "background", "xlink:href"}

MakeRun = Callable[..., dict[str, Any]]
MakeTimeline = Callable[..., Timeline]


class Page(HTMLParser):
    """The tags of a page with their attributes, and the text within each kind of tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, list[str]] = {}
        self.packed: dict[str, str] = {}
        self.open, self.id = "", ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open, self.id = tag, dict(attrs).get("id") or ""

    def handle_data(self, data: str) -> None:
        self.text.setdefault(self.open, []).append(data)
        if self.open == "script" and self.id:
            self.packed[self.id] = self.packed.get(self.id, "") + data

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)

    def figures(self) -> dict[str, Any]:
        content = zlib.decompress(unpacked_bytes(self.packed["figures"]))
        return json.loads(content, parse_constant=pytest.fail)


@pytest.fixture
def page_of(tmp_path: Path) -> Callable[[dict[str, Any], Timeline], Page]:
    def write(run: dict[str, Any], timeline: Timeline) -> Page:
        write_report(tmp_path / "report.html", record(run), timeline)
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
    if isinstance(figure, list):
        return [colored(item) for item in figure]
    return "#123456" if str(figure).startswith("--") else figure


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
    write_report(tmp_path / "report.html", record(make_run(*NAMES)), make_timeline(*NAMES))
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]
    assert (tmp_path / "report.html").stat().st_size <= MOST_BYTES
    page = Page((tmp_path / "report.html").read_text())
    assert [a["id"] for tag, a in page.tags if tag == "section"] == SECTIONS
    assert "steptime compare --ranks 4 --note 'two words'" in page.text["code"]
    assert "2.13.0" in page.text["dd"]


def test_headline_names_the_winner_its_speed_and_what_bounds_it(make_run: MakeRun) -> None:
    assert plain(headline(record(make_run(*NAMES)))) == (
        "replicated is the fastest here: 34.1 ms a step; "
        "compute bounds it: 71 % of the step, exposed communication 22 %"
    )


def test_the_doubt_is_the_interval_of_every_other_and_what_else_ran(make_run: MakeRun) -> None:
    run = make_run(*NAMES)
    assert doubt(record(run)) == (
        "Times replicated’s step: sharded 1.07 (1.05 to 1.09), server 1.40 (1.37 to 1.43); "
        "95 % intervals of 3 turns."
    )
    for block in run["turns"]["blocks"]:
        block |= {"others_cores": 4.5 + block["turn"], "stolen_cores": 0.5}
        block["compute_s"] *= 1.5 if block["strategy"] == "server" else 1
    assert doubt(record(run)).endswith(
        "95 % intervals of 3 turns. Other processes took 6.0 of 8 cores meanwhile (5.0 to 7.0 from "
        "block to block). The same model’s compute took 24.1 ms under replicated and 36.1 ms under "
        "server: something shared its cores."
    )


def test_strategies_that_cannot_be_told_apart_are_level_and_none_is_the_fastest(
    make_run: MakeRun,
) -> None:
    run = make_run(*NAMES)
    run |= {"winner": None, "level_with": ["sharded"]}
    run["turns"]["more_steps"] = 1234
    told = record(run)
    assert plain(headline(told)).startswith(
        "replicated and sharded are level here: 34.1 ms a step under replicated; compute bounds"
    )
    assert doubt(told).endswith(
        "If they are as far apart as it seems, about 1,300 more steps of each would tell."
    )


def test_where_strategies_are_level_nothing_measured_is_marked_as_the_best(
    make_run: MakeRun,
) -> None:
    strategies = record(make_run(*NAMES)).strategies
    marked = {
        column.title
        for _, cells in strategy_table(strategies, level=True).rows
        for column, cell in zip(strategy_table(strategies).columns, cells, strict=True)
        if cell.best
    }
    assert marked == {"sent per rank", "most into one rank"}  # computed


def test_a_run_without_turns_names_no_winner(make_run: MakeRun) -> None:
    run = make_run(*NAMES)
    del run["turns"], run["ratios"]
    assert plain(headline(record(run))).startswith("replicated has the shortest median here: 34.1")
    assert "nothing tells whether that is chance" in doubt(record(run))


def test_headline_says_when_communication_bounds_the_step(make_run: MakeRun) -> None:
    run = make_run(*NAMES)
    run["strategies"]["replicated"]["exposed_comm_s"] = 0.0266
    assert plain(headline(record(run))).endswith(
        "; exposed communication bounds it: 50 % of the step, compute 45 %"
    )


def test_headline_names_the_part_of_exposed_communication_that_bounds_it(make_run: MakeRun) -> None:
    run = make_run(*NAMES)
    parts = {"transfer_s": 0.005, "bubble_s": 0.02, "imbalance_s": 0.0, "dependency_s": 0.0016}
    run["strategies"]["replicated"] |= {"compute_s": 0.004, "exposed_comm_s": 0.0266} | parts
    assert plain(headline(record(run))).endswith(
        "; the pipeline bubble bounds it: 60 % of the step, transfer 15 %, compute 12 %, update 5 %"
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
    assert ranks[1:] == ["ranks 0–3 on a<br><b>34.1 ms</b>"], "bars that are alike are one"


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
    assert page.count("script") == 5 + 3
    assert hostile in page.text["dd"]
    shown = page.figures()
    notes = [a["data-note"] or "" for _, a in page.tags if "data-trace" in a]
    assert f"of {hostile} is the median" in notes[1]
    assert shown["loss"]["data"][1]["name"] == "&lt;script&gt;alert(1)&lt;/script&gt;"


def test_the_best_of_each_column_is_marked(make_run: MakeRun) -> None:
    table = strategy_table(figures(make_run(*NAMES)))
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
    maps = [figure for one in shown["matrix"] if one for figure in one["figures"]]
    for figure in (shown["parts"], shown["loss"], shown["bytes"], *maps):
        go.Figure(data=colored(figure["data"]), layout=colored(figure["layout"]))
    go.Figure(layout=colored(shown["step"]))


def test_the_parts_of_a_bar_add_up_to_the_step(make_run: MakeRun) -> None:
    entry = figures(make_run("server"))["server"]
    figure = parts_figure([("server", "47.8 ms", entry)], parts_of([entry]))
    assert sum(trace["x"][0] for trace in figure["data"]) == pytest.approx(47.8)
    assert len({trace["marker"]["color"] for trace in figure["data"]}) == 4


def test_curves_that_agree_share_the_line_and_the_page_says_why(
    page_of: Callable[..., Page], make_run: MakeRun, make_timeline: MakeTimeline
) -> None:
    run = make_run(*NAMES)
    stripes = [
        [float(part.removesuffix("px")) for part in curve.dash.split(",")]
        for curve in curves(figures(run))
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
    assert len({curve.dash for curve in curves(figures(run))}) == 3
    shown = plain("".join(page_of(run, make_timeline(*NAMES)).text["p"]))
    assert "lie on one another" not in shown
    assert "differ by up to 20 %" in shown


def test_a_loss_that_is_not_a_number_is_a_gap(
    page_of: Callable[..., Page], make_run: MakeRun, make_timeline: MakeTimeline
) -> None:
    run = make_run(*NAMES)
    run["strategies"]["sharded"]["loss"][7:] = 33 * [math.nan]
    assert loss_figure(figures(run))["data"][2]["y"][6:] == [
        pytest.approx(4.62299),
        *33 * [None],
    ]
    page = page_of(run, make_timeline(*NAMES))
    page.figures()
    assert "not a finite number" in "".join(page.text["p"])


def test_bytes_set_rank_0_apart(make_run: MakeRun) -> None:
    first, others, wire = bytes_figure(figures(make_run(*NAMES)))["data"]
    assert len(first["x"]) == 1
    assert len(others["x"]) == 3
    assert first["x"][0] == 3 * others["x"][0]
    assert "ranks 1–3 receive" in others["customdata"][0][0]
    assert max(wire["x"]) == pytest.approx(1.02 * max(first["x"]))
    assert sorted(wire["y"]) == sorted(first["y"] + others["y"])


def steps_of(timeline: Timeline, *names: str) -> dict[str, tuple[dict[str, Any], list[list[Bar]]]]:
    return {one.name: unpacked(one.packed) for one in traces({n: (timeline, n) for n in names})}


def test_the_step_shown_first_is_the_median_one() -> None:
    recorders = [Recorder(), Recorder()]
    for rank, recorder in enumerate(recorders):
        for step, milliseconds in enumerate((90, 30, 10, 40, 20)):
            begin = step + rank * 0.001
            recorder.step = step
            recorder.add("step", "s", Phase.STEP, begin, begin + milliseconds / 1e3)
            recorder.add("compute", f"forward {step}", Phase.COMPUTE, begin, begin + 0.005)
    timeline = merge([recorder.timeline(rank, 2) for rank, recorder in enumerate(recorders)])
    (one,) = traces({"s": (timeline, "s"), "absent": (timeline, "absent")})
    assert one.note.startswith("Step 2 of 5 of s is the median: 31.0 ms")
    head, steps = unpacked(one.packed)
    assert [step["number"] for step in head["steps"]] == [1, 2, 3, 4, 5]
    assert head["first"] == 1
    assert {bar.name for bar in steps[1]} == {"forward 1"}
    bounds = np.array(head["steps"][1]["bounds"]) * head["tick"]
    assert bounds == pytest.approx(np.array([[0, 0.001], [0.030, 0.031]]), abs=1e-6)


def test_what_is_packed_is_what_the_timeline_holds(make_timeline: MakeTimeline) -> None:
    timeline = make_timeline("sharded")
    head, steps = steps_of(timeline, "sharded")["sharded"]
    tick, rows = head["tick"], timeline.intervals
    assert tick < 1e-8
    for number, bars in enumerate(steps):
        begin = timeline.steps_named("sharded")
        begin = begin[begin["step"] == number]["start"].min()
        own = [bar for bar in bars if bar.start >= 0]
        table = {
            (r, timeline.names[n]): (s - begin, e - begin, b)
            for r, _, n, p, k, s, e, b, _ in rows.tolist()
            if k == number and p != Phase.STEP and timeline.names[n].startswith("backward")
        }
        found = {(b.rank, b.name): b for b in own if b.name.startswith("backward")}
        assert found.keys() >= table.keys()
        for key, (start, end, nbytes) in table.items():
            assert found[key].start == pytest.approx(start, abs=2 * tick)
            assert found[key].end == pytest.approx(end, abs=2 * tick)
            assert found[key].bytes == nbytes


def test_bars_of_a_step_never_cover_one_another(make_timeline: MakeTimeline) -> None:
    for bars in steps_of(make_timeline(*NAMES), "replicated")["replicated"][1]:
        assert len(bars) > 4 * 9
        for at, one in enumerate(bars):
            for other in bars[at + 1 :]:
                apart_in_time = other.start >= one.end - 2e-8 or one.start >= other.end - 2e-8
                assert apart_in_time or (one.row, one.lane) != (other.row, other.lane)


def test_comm_is_beneath_compute_on_every_rank(make_timeline: MakeTimeline) -> None:
    head, _ = steps_of(make_timeline(*NAMES), "replicated")["replicated"]
    assert head["rows"][:3] == [[0, "compute"], [0, "comm"], [1, "compute"]]
    assert head["ranks"] == [0, 1, 2, 3]
    assert not head["merged"]


def test_what_reaches_over_the_step_keeps_its_length(make_timeline: MakeTimeline) -> None:
    head, steps = steps_of(make_timeline("sharded"), "sharded")["sharded"]
    gathers = [bar for bar in steps[3] if bar.name == "all_gather"]
    assert all(bar.end - bar.start == pytest.approx(0.01, abs=1e-6) for bar in gathers)
    length = head["steps"][3]["length"] * head["tick"]
    assert max(bar.end for bar in gathers) > 1.1 * length
    assert min(bar.start for bar in gathers) < 0, "one of the step before still runs"


def test_many_streams_share_a_row_where_there_are_many_ranks() -> None:
    recorders = [Recorder() for _ in range(40)]
    for rank, recorder in enumerate(recorders):
        recorder.add("step", "s", Phase.STEP, 0.0, 1.0)
        recorder.add("compute", "y", Phase.COMPUTE, 0.6, 0.7 + rank / 1000)
        for stream in ("compute", "tensor", "data"):
            recorder.add(stream, "x", Phase.COMMUNICATION, 0.0, 0.5)
    timeline = merge([recorder.timeline(rank, 40) for rank, recorder in enumerate(recorders)])
    head, (bars,) = steps_of(timeline, "s")["s"]
    assert head["merged"]
    assert head["rows"][:3] == [[0, "compute"], [0, "other streams"], [1, "compute"]]
    assert sorted((bar.row, bar.lane) for bar in bars if bar.rank == 0) == [
        (0, 0),
        (0, 0),
        (1, 0),
        (1, 1),
    ]


def crowd(ranks: int, each: int) -> Timeline:
    """One step of very many intervals of uneven lengths."""
    random = np.random.default_rng(0)
    edges = np.sort(random.uniform(0, 1, (ranks, each + 1)), axis=1)
    rows = np.zeros((ranks, each + 1), INTERVAL)
    rows["rank"] = np.arange(ranks)[:, None]
    rows["start"][:, :-1], rows["end"][:, :-1] = edges[:, :-1], edges[:, 1:]
    rows["phase"], rows["stream"], rows["name"] = 1 + random.integers(0, 2, rows.shape), 1, 1
    rows["end"][:, -1], rows["phase"][:, -1] = 1.0, Phase.STEP
    rows["stream"][:, -1] = rows["name"][:, -1] = 0
    return Timeline(
        source="simulated",
        ranks=ranks,
        names=("s", "op"),
        streams=("step", "compute"),
        intervals=rows.ravel(),
        messages=np.empty(0, MESSAGE),
    )


@pytest.mark.slow
def test_a_large_timeline_is_held_whole_in_few_bytes() -> None:
    (one,) = traces({"s": (crowd(256, 2000), "s")})
    assert len(one.packed) <= MAX_BYTES
    assert unpacked_count(one.packed) == 256 * 2000
    assert "sample" not in one.note
    assert "Its times" not in one.note


def test_times_become_coarse_before_anything_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    timeline = crowd(16, 200)
    (fine,) = traces({"s": (timeline, "s")})
    monkeypatch.setattr("steptime.report.trace.MAX_BYTES", int(0.8 * len(fine.packed)))
    (one,) = traces({"s": (timeline, "s")})
    head, (bars,) = unpacked(one.packed)
    assert len(bars) == 16 * 200
    assert head["tick"] == pytest.approx(1 / 65536, rel=0.01)
    assert one.note.endswith("Its times are within 15.3 µs, those of trace.json.gz exact.")


def unpacked_count(packed: str) -> int:
    raw = unpacked_bytes(packed)
    head = json.loads(zlib.decompress(raw[4 : 4 + int.from_bytes(raw[:4], "little")]))
    return int(head["intervals"])


def test_a_larger_timeline_is_sampled_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    intervals, size = MAX_INTERVALS // 8, MAX_BYTES // 8
    monkeypatch.setattr("steptime.report.trace.MAX_INTERVALS", intervals)
    monkeypatch.setattr("steptime.report.trace.MAX_BYTES", size)
    (one,) = traces({"s": (crowd(64, 2000), "s")})
    held = unpacked_count(one.packed)
    assert 0.4 * intervals < held <= intervals
    assert len(one.packed) <= size
    assert re.search(r"a sample of it: \d+ of its 64 ranks, spread evenly", one.note)


def test_steps_beyond_what_a_page_holds_are_left_out_and_it_says_so(
    make_timeline: MakeTimeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeline = make_timeline("server")
    monkeypatch.setattr("steptime.report.trace.MAX_INTERVALS", 150)
    (one,) = traces({"server": (timeline, "server")})
    head, steps = unpacked(one.packed)
    assert 1 < len(head["steps"]) < 9
    assert f"holds {len(steps)} of the 9 steps" in one.note
    monkeypatch.setattr("steptime.report.trace.MAX_INTERVALS", 5)
    (one,) = traces({"server": (timeline, "server")})
    assert "1 of its 4 ranks, spread evenly and the 5 longest of" in one.note


def test_the_page_holds_the_critical_path_and_the_messages(make_timeline: MakeTimeline) -> None:
    timeline = make_timeline("server")
    begin = timeline.steps_named("server")["start"].min()
    sent = np.array([(0, 3, begin + 0.01, begin + 0.02, 77), (9, 3, begin, begin, 1)], MESSAGE)
    head, _ = steps_of(replace(timeline, messages=sent), "server")["server"]
    first = head["steps"][0]
    ((src, dst, at, took, nbytes),) = first["messages"]
    assert (src, dst, nbytes) == (0, 3, 77)
    assert (at * head["tick"], took * head["tick"]) == pytest.approx((0.01, 0.01), abs=1e-7)
    path = first["path"]
    assert all(one[2] == other[1] for one, other in pairwise(path))
    assert path[-1][2] == first["length"]


def test_a_run_without_steps_says_so(
    page_of: Callable[..., Page], make_run: MakeRun, make_timeline: MakeTimeline
) -> None:
    page = page_of(make_run("server"), make_timeline("replicated"))
    assert "This run left no steps in its timeline." in page.text["p"]
    assert not [a for tag, a in page.tags if "data-trace" in a]


def test_importing_the_report_is_light() -> None:
    heavy = "import sys, steptime.report; print({'torch', 'plotly', 'jinja2'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", heavy], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
