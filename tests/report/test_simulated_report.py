"""The page and the terminal of simulated steps: marked as such, without what no simulation has."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest
from rich.console import Console

from report.typed import figures, record
from steptime.report import write_report
from steptime.report.page import context as context_of_runs
from steptime.report.section import Page
from steptime.report.sections.bounds import bounds_of
from steptime.report.sections.bytes import MAX_BARS, bytes_figure
from steptime.report.sections.links import OVERBOOKED, link_figures
from steptime.report.sections.side_by_side import Quantity, side_by_side
from steptime.report.sections.strategies import strategy_table
from steptime.report.sentences import headline
from steptime.report.subject import Run
from steptime.report.terminal import print_run
from steptime.report.trace import traces
from steptime.timeline import Timeline

NAMES = ("server", "replicated", "sharded")

MakeRun = Callable[..., dict[str, Any]]
MakeTimeline = Callable[..., Timeline]


def answer(what: str, kind: str, elasticity: float, *, faster: bool = True) -> dict[str, Any]:
    return {"what": what, "kind": kind, "faster": faster, "elasticity": elasticity}


SENSITIVITY = [
    answer("all devices", "compute", 0.3),
    answer("all links", "bandwidth", 0.62),
    answer("all links", "latency", 0.08),
    answer("all NIC links", "bandwidth", 0.61),
    answer("all device links", "bandwidth", 0.0),
    answer("switch → host0", "bandwidth", 0.55, faster=False),
]


@pytest.fixture
def timeline(make_timeline: MakeTimeline) -> Timeline:
    return replace(make_timeline(*NAMES, steps=2), source="simulated")


def printed(run: dict[str, Any], width: int = 80) -> str:
    console = Console(width=width, color_system=None)
    with console.capture() as text:
        print_run(console, record(run))
    return text.get()


def context(run: dict[str, Any], timeline: Timeline) -> dict[str, Any]:
    return context_of_runs([Run("run", record(run), timeline)])


def section(page: str, name: str) -> str:
    found = re.search(rf'<section id="{name}">.*?</section>', page, re.S)
    assert found, name
    return found[0]


def test_the_page_marks_every_figure_and_leaves_out_what_no_simulation_has(
    tmp_path: Path, make_simulated: MakeRun, timeline: Timeline
) -> None:
    write_report(tmp_path / "report.html", record(make_simulated(*NAMES)), timeline)
    page = (tmp_path / "report.html").read_text().partition("<script")[0]
    assert re.findall(r'<section id="(\w+)">', page) == [
        "strategies",
        "parts",
        "timeline",
        "matrix",
        "calls",
        "links",
        "efficiency",
        "bytes",
        "environment",
    ]
    for part in ("parts", "timeline", "calls", "links", "efficiency", "bytes"):
        assert '<span class="source">simulated</span>' in section(page, part)
    table = section(page, "strategies")
    assert re.findall(r"<small>(measured|computed|simulated)</small>", table) == ["simulated"] * 9
    for absent in ("p10", "on the wire", ">measured<"):
        assert absent not in page
    assert "counted from the simulated messages" in section(page, "bytes")


def test_the_headline_says_simulated_and_where(make_simulated: MakeRun) -> None:
    several, one = (headline(record(make_simulated(*names))) for names in (NAMES, ("sharded",)))
    assert several.startswith(
        "replicated is the fastest on office: 34.1 ms a simulated step, 1.40×"
    )
    assert one.startswith("A step of sharded takes 36.4 ms on office, simulated; compute bounds")


def test_a_simulated_step_has_no_spread_to_doubt_but_may_be_off(
    make_simulated: MakeRun, timeline: Timeline
) -> None:
    run = make_simulated(*NAMES)
    for entry in run["strategies"].values():
        entry["step_time_s"] = dict.fromkeys(("median", "p10", "p90"), 0.03)
    assert context(run, timeline)["doubt"].startswith("No measured step is near this")
    assert "median" in [column.title for column in strategy_table(figures(run)).columns]


def test_the_last_simulated_step_is_shown(timeline: Timeline) -> None:
    found = traces({name: (timeline, name) for name in NAMES})
    assert {one.note.partition(" of ")[0] for one in found} == {"Step 2"}
    assert "in the steady state" in found[0].note


def test_the_page_says_which_ranks_stand_for_all(
    make_simulated: MakeRun, timeline: Timeline
) -> None:
    run = make_simulated(*NAMES)
    assert context(run, timeline)["representatives"] == ""
    for entry in run["strategies"].values():
        entry["ranks"] = [entry["ranks"][0] | {"rank": rank} for rank in range(4096)]
    some = replace(timeline, intervals=timeline.intervals[timeline.intervals["rank"] % 2 == 0])
    assert context(run, some)["representatives"] == (
        "Of 4,096 ranks the timeline holds 2, one of each kind of work: 0, 2. "
        "Its rows are named for all ranks with the same figures."
    )
    run |= {"winner": "server", "strategies": {"server": run["strategies"]["server"]}}
    shown = context(run, some)["figures"]["parts"]["layout"]["yaxis"]["ticktext"]
    assert [label.partition("<")[0] for label in shown] == ["server", "ranks 0–4095 on a"]


def test_bytes_of_thousands_of_ranks_are_a_few_bars(
    make_simulated: MakeRun, timeline: Timeline
) -> None:
    run = make_simulated("server")
    entry = run["strategies"]["server"]
    entry["bytes_received_per_rank"] = entry["bytes_sent_per_rank"] = list(range(16384))
    run["world_size"] = 16384
    figure = bytes_figure(figures(run))
    assert sum(len(trace["x"]) for trace in figure["data"]) == MAX_BARS
    assert context(run, timeline)["bytes_shown"] == MAX_BARS
    assert "16.4 kB into rank 16383" in context(run, timeline)["bytes_sentence"]


def links_of(run: dict[str, Any], timeline: Timeline | None = None) -> dict[str, Any]:
    page = Page([Run("run", record(run), timeline)])
    return {
        one.name: figure
        for one, figure in zip(page.subjects, link_figures(page.subjects), strict=True)
    }


def test_the_heat_map_of_links_is_one_that_plotly_knows(make_simulated: MakeRun) -> None:
    run = make_simulated(*NAMES)
    strategies = run["strategies"]
    strategies["server"]["link_use"] = None
    found = links_of(run)
    assert found["server"] is None
    figure = found["replicated"]
    drawn = json.dumps({part: figure[part] for part in ("data", "layout")})
    go.Figure(json.loads(re.sub(r'"--\w+"', '"#123456"', drawn)))
    (heat,) = figure["data"]
    assert heat["z"] == [[1.0, 0.5, 0.0, 0.0]]
    assert figure["layout"]["yaxis"]["ticktext"] == ["host0 → switch +2"]
    median = 1e3 * strategies["replicated"]["step_time_s"]["median"]
    assert (heat["x0"], heat["dx"]) == pytest.approx((median / 8, median / 4))
    assert figure["layout"]["xaxis"]["range"] == pytest.approx([0, median])
    assert (
        "The busiest 3 links are shown, and 7 that carry something are left out."
        in (figure["note"])
    )


def test_links_whose_use_does_not_vary_are_told_and_not_drawn(make_simulated: MakeRun) -> None:
    run = make_simulated("replicated")
    use = run["strategies"]["replicated"]["link_use"]
    use["utilisation"] = [[0.2, 0.2, 0.2, 0.2], [0.1, 0.3, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
    figure = links_of(run)["replicated"]
    assert figure["data"][0]["z"] == [[0.1, 0.3, 0.0, 0.0]]
    assert "2 whose use does not vary are not shown." in figure["note"]
    use["utilisation"] = 3 * [[0.2, 0.2, 0.2, 0.2]]
    assert "data" not in links_of(run)["replicated"]


def test_a_link_that_carries_more_than_it_can_is_owned_up_to(make_simulated: MakeRun) -> None:
    run = make_simulated("replicated")
    assert OVERBOOKED not in " ".join(printed(run).split())
    run["strategies"]["replicated"]["link_use"]["utilisation"] = [[1.2], [0.1], [0.0]]
    assert OVERBOOKED in " ".join(printed(run).split())
    assert OVERBOOKED in links_of(run)["replicated"]["note"]


def test_links_known_on_average_alone_say_so(make_simulated: MakeRun) -> None:
    run = make_simulated("replicated")
    run["strategies"]["replicated"]["link_use"]["utilisation"] = [[0.2], [0.2], [0.1]]
    figure = links_of(run)["replicated"]
    assert "data" not in figure, "without a timeline nobody knows what is sent when"
    assert "20\u00a0% of host0 → switch and 1 like it, 10\u00a0% of" in figure["note"]
    assert "nobody knows when a link is used" in figure["note"]


def test_the_terminal_says_simulated_and_has_no_columns_that_nobody_has(
    make_simulated: MakeRun,
) -> None:
    text = printed(make_simulated(*NAMES))
    assert "Simulated on office, Four desks" in text
    assert "replicated is the fastest on office: 34.1 ms a step" in text
    assert "Every figure is simulated, at message fidelity: 4 ranks on office" in text
    for absent in ("p10", "Loss", "measured", "wire"):
        assert absent not in text
    wide = printed(make_simulated(*NAMES), width=160)
    assert "wire" not in wide


def test_what_if_stands_beside_what_is(make_simulated: MakeRun) -> None:
    run = make_simulated(*NAMES)
    other = make_simulated(*NAMES)["strategies"]
    other["sharded"]["step_time_s"]["median"] = 0.0182
    run["what_if"] = {"changes": "bandwidth=2x", "strategies": other}
    beside = side_by_side(record(run))
    assert beside is not None
    name, (step, compute, _) = beside.rows[0]
    assert (name, step.difference, compute.difference) == ("sharded", "−50 %", "0 %")
    assert "What if bandwidth=2x" in printed(run)


def test_simulated_stands_beside_measured(
    make_run: MakeRun, make_simulated: MakeRun, make_timeline: MakeTimeline, tmp_path: Path
) -> None:
    run = make_run(*NAMES)
    run |= {"steps": 9, "warmup": 1}
    simulated = make_simulated("server", "replicated")
    run["simulated"] = {
        field: simulated[field] for field in ("cluster", "cluster_title", "fidelity", "strategies")
    }
    text = printed(run)
    assert "Measured here and simulated on Four desks" in text
    assert len(re.findall(r"^server ", text, re.MULTILINE)) == 2
    assert len(re.findall(r"^sharded ", text, re.MULTILINE)) == 1
    write_report(tmp_path / "report.html", record(run), make_timeline(*NAMES))
    page = (tmp_path / "report.html").read_text()
    assert '<span class="source">measured</span> <span class="source">simulated</span>' in section(
        page, "beside"
    )


@pytest.mark.parametrize(
    ("left", "right", "text"),
    [
        (1.0, 1.5, "+50 %"),
        (1.0, 1.0123, "+1.2 %"),
        (1.0, 0.5, "−50 %"),
        (1.0, 1.0001, "0 %"),
        (0.0, 0.0, "0 %"),
        (0.0, 1.0, "–"),
    ],
)
def test_differences(left: float, right: float, text: str) -> None:
    assert Quantity(left, right).difference == text


def test_what_bounds_the_step_is_said_in_a_sentence_and_shown(make_simulated: MakeRun) -> None:
    run = make_simulated("replicated")
    assert bounds_of(record(run)) == []
    run["strategies"]["replicated"]["sensitivity"] = SENSITIVITY
    (bounds,) = bounds_of(record(run))
    assert bounds.sentence.replace("\u00a0", " ") == (
        "1 % more bandwidth of all links saves 0.62 % (NIC links 0.61 %), compute speed 0.30 %, "
        "latency 0.08 %; 1 % less bandwidth of switch → host0 alone costs 0.55 %."
    )
    assert bounds.gains[0] == ("1 % more bandwidth of all links", "0.62\u00a0%")
    assert bounds.gains[-1] == ("1 % more bandwidth of all device links", "0\u00a0%")
    assert ("1 % less latency of all links", "0.08\u00a0%") in bounds.gains
    assert re.search(r"switch → host0 +costs 0.55", printed(run))
    for width in range(60, 80):  # no line begins with the unit of what is saved
        assert not re.search(r"^%[,;.)]", printed(run, width), re.MULTILINE)


def test_a_step_that_nothing_bounds_says_so(make_simulated: MakeRun) -> None:
    run = make_simulated("replicated")
    run["strategies"]["replicated"]["sensitivity"] = [answer("all links", "latency", 0.0)]
    assert bounds_of(record(run))[0].sentence == "nothing that is made 1 % faster saves anything."


def test_published_figures_stand_beside(make_simulated: MakeRun, timeline: Timeline) -> None:
    run = make_simulated(*NAMES)
    row = {"label": "reduce", "published_s": 0.5, "simulated_s": 0.52, "how": "calibrated: x"}
    run["published"] = {"source": "A paper (2024)", "rows": [row]}
    assert context(run, timeline)["published"][0][:4] == ("reduce", "500 ms", "520 ms", "+4.0 %")
    assert re.search(r"^reduce +500 ms +520 ms +\+4.0 % +calibrated: x", printed(run), re.MULTILINE)
    assert "A paper (2024)" in printed(run)
