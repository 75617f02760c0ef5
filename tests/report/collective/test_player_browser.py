"""The player in a real browser: it plays, steps and fits, and computes what Python proved."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steptime.cluster import Cluster
from steptime.cluster.files import cluster_named
from steptime.collectives import Round, Schedule, algorithm, all_algorithms, prove, schedule, send
from steptime.collectives.lookup import find_algorithms
from steptime.report.collective.page import player_page
from steptime.report.collective.panel import Link, panel

LINK = Link(alpha=5e-6, bandwidth=10e9)
HELD = """() => panels.map((panel) => {
  const holds = panel.states.at(-1);
  const ranks = [...Array(panel.ranks).keys()];
  return ranks.map((rank) => [...Array(panel.slots).keys()].map((slot) => {
    const at = rank * panel.slots + slot;
    return [holds.chunk[at], ranks.filter((origin) => has(holds, at, origin))];
  }));
})"""


@pytest.fixture
def open_page(open_html: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Opens the page of some algorithms."""

    def show(*schedules: Schedule, cluster: Cluster | None = None, **options: Any) -> Any:
        path = tmp_path / "player.html"
        found = [
            find_algorithms(f"{made.collective.name}/{made.algorithm}")[0] for made in schedules
        ]
        shown = [
            panel(algorithm, made, made.ranks << 20, LINK, cluster)
            for algorithm, made in zip(found, schedules, strict=True)
        ]
        path.write_text(player_page(shown))
        return open_html(path, **options)

    return show


def named(name: str, ranks: int, **settings: Any) -> Schedule:
    return schedule(find_algorithms(name)[0], ranks, **settings)


def until(page: Any, expression: str) -> None:
    """Wait for an expression to be true; the page allows no eval, so ask from outside."""
    deadline = time.monotonic() + 600
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(20)


def told(page: Any, panel: int = 0) -> str:
    return page.locator(".told").nth(panel).inner_text()


@pytest.mark.slow
def test_every_algorithm_ends_with_what_its_collective_asks_for(
    open_page: Callable[..., Any],
) -> None:
    made = [schedule(a, 4, root=2) for a in all_algorithms()]
    assert all(prove(one).ok for one in made)
    page = open_page(*made)
    for one, held in zip(made, page.evaluate(HELD), strict=True):
        wanted: dict[tuple[int, int], tuple[int, list[int]]] = {}
        for rank, slot, origin, index in one.collective.after(4, one.chunks, one.root).tolist():
            wanted.setdefault((rank, slot + one.result), (index, []))[1].append(origin)
        for (rank, slot), (index, origins) in wanted.items():
            assert held[rank][slot] == [index, origins], (one.collective.name, one.algorithm)


@pytest.mark.slow
def test_keys_and_buttons_go_round_by_round(open_page: Callable[..., Any]) -> None:
    page = open_page(named("all_reduce/ring", 4))
    assert "round 0, of 0 to 5" in told(page)
    assert "Every rank r sends chunk r−t−1 to r+1" in told(page)
    assert "Rank 0 sends chunk 3 to rank 1" in told(page)
    page.keyboard.press("ArrowRight")
    page.get_by_role("button", name="one round on").click()
    assert "round 2, of 0 to 5" in told(page)
    assert page.locator("[data-of=latency]").inner_text().startswith("2 α of 6, 10.0 µs")
    assert page.locator("[data-of=sent]").inner_text() == "0.50 S 2.10 MB"
    page.keyboard.press("ArrowLeft")
    assert "round 1," in told(page)
    page.keyboard.press("End")
    assert "after 6 rounds" in told(page)
    assert page.locator("[data-of=sent]").inner_text().startswith("1.50 S")
    page.keyboard.press("Home")
    assert "round 0," in told(page)
    page.locator(".strip g").nth(4).click()
    assert "round 4," in told(page)


def test_it_plays_to_the_end_and_can_be_paused(open_page: Callable[..., Any]) -> None:
    page = open_page(named("all_reduce/ring", 32))
    page.locator("#speed").select_option("0.5")  # three minutes: the click on pause comes in time
    page.get_by_role("button", name="play", exact=True).click()
    page.get_by_role("button", name="pause").click()
    assert 0 <= page.evaluate("player.at") < 62
    assert not page.evaluate("player.playing")
    page.get_by_role("button", name="end").click()
    page.keyboard.press("ArrowLeft")
    page.locator("#speed").select_option("4")
    page.keyboard.press("Escape")
    page.locator("body").press(" ")
    until(page, "!player.playing && player.at === 62")
    assert "after 62 rounds" in told(page)


@pytest.mark.slow
def test_times_follow_the_size_and_the_price(open_page: Callable[..., Any]) -> None:
    ring, doubling = named("all_reduce/ring", 8), named("all_reduce/recursive_doubling", 8)
    page = open_page(ring, doubling)
    cells = page.locator("[data-time]")
    assert cells.all_inner_texts() == ["1.54 ms", "2.53 ms"]
    assert "best" in cells.nth(0).get_attribute("class")
    page.locator("#size").fill("0")
    assert page.locator("#size-text").inner_text() == "1 KiB"
    assert "best" in cells.nth(1).get_attribute("class")
    assert cells.nth(1).inner_text() == "15.3 µs"


@pytest.mark.slow
def test_panels_keep_pace_by_rounds_or_by_time(open_page: Callable[..., Any]) -> None:
    page = open_page(named("all_reduce/ring", 8), named("all_reduce/recursive_doubling", 8))
    page.keyboard.press("ArrowRight")
    assert "round 1," in told(page, 0)
    assert "round 1," in told(page, 1)
    page.locator("#pace").select_option("time")
    page.locator("body").press("End")
    assert "after 14 rounds" in told(page, 0)
    page.locator("body").press("Home")
    for _ in range(8):
        page.locator("body").press("ArrowRight")
    assert "round 7," in told(page, 0)
    assert "round 1," in told(page, 1)


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_never_scrolls_sideways(open_page: Callable[..., Any], width: int) -> None:
    page = open_page(
        named("all_reduce/two_level", 12, hosts=tuple(rank // 5 for rank in range(12))),
        named("broadcast/binomial", 12, root=3),
        named("all_reduce/ring", 12),
        width=width,
    )
    assert page.evaluate("document.documentElement.scrollWidth") == width
    kinds = page.evaluate("panels.map((panel) => panel.layout)")
    assert kinds == ["hosts", "tree", "circle"]
    inside = """panels.every((panel) => {
      const { place } = panel;
      const [half, tall] = [place.box / 2, boxHeight(panel, place.box) / 2];
      return place.points.every(([x, y]) => x - half >= 0 && y - tall >= 0
        && x + half <= panel.canvas.clientWidth && y + tall <= place.height);
    })"""
    assert page.evaluate(inside)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "name"),
    [(390, "ring"), pytest.param(1280, "ring", marks=pytest.mark.slow), (1280, "double_tree")],
)
def test_the_picture_and_the_words_stand_above_the_controls(
    open_page: Callable[..., Any], width: int, name: str
) -> None:
    page = open_page(named(f"all_reduce/{name}", 8), width=width)
    stage, told, controls = (
        page.locator(which).bounding_box() for which in (".stage", ".told", ".controls")
    )
    assert stage["y"] + stage["height"] < controls["y"]
    assert told["y"] + told["height"] < controls["y"]
    overlapping = """() => panels[0].place.points.some(([x, y], i, all) => all.some(([u, v], j) =>
      i < j && Math.abs(x - u) < panels[0].place.box && Math.abs(y - v) < panels[0].place.box))"""
    assert not page.evaluate(overlapping)


@pytest.mark.slow
def test_two_trees_have_two_colours(open_page: Callable[..., Any]) -> None:
    page = open_page(named("all_reduce/double_tree", 8, blocks=4), named("all_reduce/ring", 8))
    assert page.evaluate("panels.map((panel) => panel.trees.join(''))") == ["00001111", ""]
    wires = page.evaluate("panels[0].wires")
    edges = [{frozenset(wire[:2]) for wire in wires if wire[2] == tree} for tree in (0, 1)]
    assert [len(tree) for tree in edges] == [7, 7]
    assert edges[0] != edges[1]
    assert page.evaluate("panels[1].wires.every(([, , tree]) => tree < 0)")
    assert page.evaluate("new Set([ink.tree0, ink.tree1, ink.wire]).size") == 3


@pytest.mark.slow
def test_a_term_explains_itself_to_mouse_keyboard_and_finger(
    open_page: Callable[..., Any],
) -> None:
    page = open_page(named("all_reduce/ring", 8), width=390, has_touch=True)
    means, term = page.locator("#means"), page.locator(".term", has_text="latency")
    for ask in (term.hover, term.focus, term.tap):
        ask()
        assert means.inner_text().startswith("α is what a message takes")
        box = means.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
        page.keyboard.press("Escape")
        assert means.is_hidden()
        term.blur()


@pytest.mark.slow
def test_arrows_go_by_rounds_on_the_slider_too(open_page: Callable[..., Any]) -> None:
    page = open_page(named("all_reduce/ring", 4))
    page.locator("#position").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert "round 2, of 0 to 5" in told(page)
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("player.at") == 1


@pytest.mark.slow
def test_the_answer_names_the_fastest_of_one_collective(open_page: Callable[..., Any]) -> None:
    page = open_page(named("all_reduce/ring", 8), named("all_reduce/recursive_doubling", 8))
    said = page.locator("#answer").inner_text()
    assert said.startswith("For S = 8 MiB ring is the fastest: ring 1.54 ms, recursive_doubling 2")
    assert said.endswith("computed, not measured.")
    page.locator("#size").fill("0")
    assert "recursive_doubling is the fastest" in page.locator("#answer").inner_text()


@pytest.mark.slow
def test_the_stage_follows_a_change_to_dark(open_page: Callable[..., Any]) -> None:
    page = open_page(named("all_reduce/ring", 4), color_scheme="light")
    light = page.evaluate("ink.reduce")
    page.emulate_media(color_scheme="dark")
    until(page, f"ink.reduce !== '{light}'")


@pytest.mark.slow
def test_who_wants_less_motion_sees_whole_rounds(open_page: Callable[..., Any]) -> None:
    page = open_page(named("all_reduce/recursive_doubling", 4), reduced_motion="reduce")
    page.locator("#speed").select_option("4")
    page.evaluate("() => { seen = new Set(); tell = () => seen.add(player.at); }")
    page.locator("body").press(" ")
    until(page, "!player.playing && player.at === 2")
    assert page.evaluate("[...seen].every(Number.isInteger) && seen.size > 1")


@pytest.mark.slow
def test_on_a_cluster_each_rank_goes_on_by_itself(open_page: Callable[..., Any]) -> None:
    """Half way some ranks are rounds ahead of others; at the end all hold what they are to hold."""
    cluster = cluster_named("dgx-h100-pod")
    ring = named("all_reduce/ring", 16, hosts=tuple(rank // 8 for rank in range(16)))
    page = open_page(ring, cluster=cluster)
    assert page.locator("#pace").input_value() == "time"
    assert page.evaluate("panels[0].layout") == "hosts"
    assert page.locator("#size").count() == 0
    times = page.evaluate(
        "panels[0].messages.map(([round, src, dst, from, to]) => [src, to - from])"
    )
    between = [took for src, took in times if src in (7, 15)]
    within = [took for src, took in times if src not in (7, 15)]
    assert len(times) == 30 * 16
    assert min(between) > 1.5 * max(within)
    page.evaluate("go(last() / 3)")
    rounds = page.evaluate("moment(panels[0]).rounds")
    assert max(rounds) > min(rounds) + 1
    assert f"rounds {min(rounds)} to {max(rounds)}, of 0 to 29" in told(page)
    moving = page.evaluate("moment(panels[0]).moving")
    assert {(one["src"], one["dst"]) for one in moving} >= {(7, 8), (15, 0)}
    assert all(0 <= one["part"] < 1 for one in moving)
    strip = page.locator(".strip").bounding_box()
    page.locator(".strip").click(position={"x": strip["width"] / 2, "y": 5})
    assert page.evaluate("player.at / last()") == pytest.approx(0.5, abs=0.01)
    page.locator("body").press("End")
    assert "after 30 rounds" in told(page)
    assert page.evaluate("moment(panels[0]).rounds") == [30] * 16
    page.locator("#pace").select_option("rounds")
    page.locator("body").press("Home")
    assert "round 0, of 0 to 29" in told(page)


@algorithm("all_reduce")
def short_ring(ranks: int) -> Iterator[Round]:
    """A ring that stops adding a round too early."""
    rank = np.arange(ranks)
    for step in range(1, ranks - 1):
        yield send(rank, (rank + 1) % ranks, (rank - step) % ranks, reduce=True)
    for step in range(ranks - 1):
        yield send(rank, (rank + 1) % ranks, (rank - step) % ranks)


def test_a_wrong_algorithm_is_played_with_what_is_wrong_marked(
    open_html: Callable[..., Any], tmp_path: Path
) -> None:
    made = schedule(short_ring, 4)
    findings = prove(made).findings
    wrong = [panel(short_ring, made, 4 << 20, LINK, findings=findings)]
    (tmp_path / "a.html").write_text(player_page(wrong))
    page = open_html(tmp_path / "a.html")
    assert page.locator(".findings li").count() == len(findings)
    rounds = {finding.round for finding in findings if finding.round >= 0}
    assert page.locator(".strip g.wrong").count() == len(rounds)
    assert page.locator("#answer").inner_text().startswith("It is wrong: in round ")
    assert "Wrong" not in told(page)
    assert page.evaluate(
        "moment(panels[0]).moving.every((one) => !findingsOf(panels[0], one).length)"
    )
    page.locator(f'.findings button[data-round="{max(rounds)}"]').first.click()
    last = next(finding for finding in findings if finding.round == max(rounds))
    assert f"Wrong: {last}" in told(page)
    marked = page.evaluate(
        "moment(panels[0]).moving.filter((one) => findingsOf(panels[0], one).length)"
    )
    assert last.rank in {one["dst"] for one in marked if one["into"] == last.chunk}
    page.keyboard.press("End")
    assert "Not every rank has what it is to have." in told(page)
