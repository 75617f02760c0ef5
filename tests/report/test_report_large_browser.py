"""Pages of real runs in a real browser: a live comparison, and a simulation of 256 ranks."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli.command import here, run
from report.browsing import drawn, next_frame, point_at, shown_range
from report.looking import MOST_BYTES
from report.typed import record
from steptime.report import write_report
from steptime.timeline import INTERVAL, MESSAGE, Phase, Timeline, read_chrome_trace

pytestmark = pytest.mark.slow

pytest.importorskip("playwright.sync_api", reason="pip install playwright")

SECTIONS = ["strategies", "parts", "timeline", "matrix", "calls", "efficiency"]


def sections(page: Any) -> list[str]:
    return page.locator("section").evaluate_all("all => all.map(one => one.id)")


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("compared")
    tiny = "--layers 2 --hidden 32 --heads 2 --tokens 16 --batch 8 --steps 4 --warmup 1"
    words = ["compare", "--ranks", "4", *tiny.split(), "--threads", "1"]
    done = run(*words, "--strategies", "replicated,overlapped", "--out", str(out), folder=out)
    assert done.code == 0, done.err
    return out


def test_the_page_of_a_live_comparison(compared: Path, open_html: Callable[..., Any]) -> None:
    page = drawn(open_html(compared / "report.html"))
    assert sections(page) == [*SECTIONS[:5], "loss", "efficiency", "bytes", "environment"]
    assert "rank 0" in point_at(page, "forward")
    before = shown_range(page)
    page.locator("#step-figure").scroll_into_view_if_needed()
    box = page.locator("#step-figure .nsewdrag").bounding_box()
    page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 32, steps=4)
    page.mouse.up()
    after = shown_range(page)
    assert after[1] - after[0] == pytest.approx(0.3 * (before[1] - before[0]), rel=0.05)
    assert "all_reduce" in page.locator("#calls").inner_text()


def test_the_page_of_256_simulated_ranks(tmp_path: Path, open_html: Callable[..., Any]) -> None:
    model = "gpt2-124M --cluster h100-16384 --ranks 256 --tensor 4 --pipeline 4"
    done = here("simulate", *model.split(), "--out", str(tmp_path), folder=tmp_path)
    assert done.code == 0, done.err
    assert (tmp_path / "report.html").stat().st_size <= MOST_BYTES
    page = drawn(open_html(tmp_path / "report.html"))
    assert sections(page) == [
        *SECTIONS[:5],
        "links",
        "efficiency",
        "memory",
        "bytes",
        "environment",
    ]
    assert page.locator("#matrix .heatmaplayer image").count() == 2
    assert page.get_by_label("messages").is_checked()
    assert "it goes from one rank to another" in page.locator("#path-note").inner_text()
    assert len(read_chrome_trace(tmp_path / "trace.json.gz").messages) > 0


def crowded(ranks: int, each: int) -> tuple[dict[str, Any], Timeline]:
    """A step of many intervals on many ranks: computing, and communicating in between."""
    random = np.random.default_rng(0)
    edges = np.sort(random.uniform(0, 1, (ranks, each // 2 + 1)), axis=1)
    rows = np.zeros((ranks, 2, each // 2 + 1), INTERVAL)
    rows["rank"] = np.arange(ranks)[:, None, None]
    rows["start"][..., :-1], rows["end"][..., :-1] = edges[:, None, :-1], edges[:, None, 1:]
    rows["end"][:, 1] = 0.5 * (rows["start"][:, 1] + rows["end"][:, 1])
    rows["phase"][:, 0], rows["phase"][:, 1] = Phase.COMPUTE, Phase.COMMUNICATION
    rows["stream"][:, 0], rows["stream"][:, 1] = 1, 2
    rows["name"] = 1 + random.integers(0, 50, rows.shape)
    rows["bytes"][:, 1] = 4096
    rows["start"][..., -1], rows["end"][..., -1] = 0.0, 1.0
    rows["phase"][..., -1], rows["stream"][..., -1], rows["name"][..., -1] = Phase.STEP, 0, 0
    flat = np.concatenate([rows[:, 0].ravel(), rows[:, 1, :-1].ravel()])
    timeline = Timeline(
        source="simulated",
        ranks=ranks,
        names=("crowded", *(f"op {n}" for n in range(50))),
        streams=("step", "compute", "comm"),
        intervals=flat,
        messages=np.empty(0, MESSAGE),
    )
    parts = {"compute_s": 0.7, "exposed_comm_s": 0.2, "update_s": 0.05, "other_s": 0.05}
    entry = {
        "source": "simulated",
        "summary": "",
        "step_time_s": {"median": 1.0, "p10": 1.0, "p90": 1.0},
        **parts,
        "bytes_sent_per_rank": ranks * [4096],
        "bytes_received_per_rank": ranks * [4096],
        "tokens_per_s": None,
        "loss": [],
        "ranks": [
            {"rank": rank, "host": f"host{rank // 8}", "step_time_s": 1.0, **parts}
            for rank in range(ranks)
        ],
    }
    run = {"verb": "simulate", "run": "crowded", "model": "many", "strategies": {"crowded": entry}}
    there = {"world_size": ranks, "cluster": "many", "environment": {"time": ""}}
    return record(run | there), timeline


def test_a_fault_is_drawn_among_folded_ranks_and_named_in_the_key(
    tmp_path: Path, open_html: Callable[..., Any]
) -> None:
    crowd, calm = crowded(256, 20)
    faults = np.zeros(256, INTERVAL)
    faults["rank"], faults["end"], faults["phase"], faults["stream"] = range(256), 0.5, 6, 3
    faulty = replace(
        calm,
        streams=(*calm.streams, "faults"),
        intervals=np.concatenate([calm.intervals, faults]),
    )
    for timeline, keys in ((calm, 0), (faulty, 1)):
        path = tmp_path / "report.html"
        write_report(path, crowd, timeline)
        page = drawn(open_html(path))
        assert page.locator("#timeline .key").get_by_text("fault", exact=True).count() == keys
        page.get_by_role("button", name="ranks 0–31").click()
        next_frame(page)


def test_256_ranks_of_2000_intervals_are_painted(
    tmp_path: Path, open_html: Callable[..., Any]
) -> None:
    crowd, timeline = crowded(256, 2000)
    path = tmp_path / "report.html"
    write_report(path, crowd, timeline)
    assert path.stat().st_size <= MOST_BYTES
    page = drawn(open_html(path))
    paint = json.loads(
        page.evaluate("JSON.stringify(performance.getEntriesByName('first-contentful-paint'))")
    )
    drawn_ms = page.evaluate("performance.getEntriesByName('timeline-drawn')[0].startTime")
    print(f"{path.stat().st_size / 1e6:.1f} MB", end=", ")
    print(f"first paint {paint[0]['startTime']:.0f} ms, timeline drawn {drawn_ms:.0f} ms")
    assert page.evaluate("view.trace.intervals") >= 256 * 2000
    labels = page.locator("#step-figure .ytick text").all_text_contents()
    assert labels[:2] == ["rank 0", "rank 1"]
    assert labels[32:] == [f"ranks {n}–{n + 31}" for n in range(32, 256, 32)]
    page.get_by_role("button", name="ranks 64–95").click()
    next_frame(page)
    labels = page.locator("#step-figure .ytick text").all_text_contents()
    assert labels[32:35] == ["ranks 32–63", "rank 64", "rank 65"]
    page.get_by_role("button", name="ranks 0–31").click()
    page.get_by_role("button", name="ranks 64–95").click()
    box = page.locator("#step-figure .nsewdrag").bounding_box()
    page.locator("#step-figure").scroll_into_view_if_needed()
    box = page.locator("#step-figure .nsewdrag").bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 0.3 * box["height"])
    assert "compute on" in page.locator("#tip").inner_text()
