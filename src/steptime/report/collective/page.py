"""The page that plays collective algorithms step by step: one HTML file that needs no network."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from steptime.collectives import Round, Schedule
from steptime.collectives.price import round_ends
from steptime.errors import UsageError
from steptime.report.collective.layout import layout, two_trees
from steptime.report.collective.panel import Panel
from steptime.report.collective.picture import busy_ports, phases
from steptime.report.collective.schedule_timeline import ScheduleTimeline, told
from steptime.report.template import html_page
from steptime.units import format_seconds
from steptime.words import listed

MAX_RANKS = 64
_MAX_NUMBERS = 250_000  # in the rounds of a page, about a MB
_SIZES = tuple(1 << power for power in range(10, 31, 2))


def player_page(shown: Sequence[Panel]) -> str:
    """The page that plays ``shown`` side by side.

    Raises UsageError when they have more ranks or messages than a page can show.
    """
    cluster = shown[0].timeline.cluster if shown[0].timeline else None
    own = {one.nbytes for one in shown if one.nbytes}
    sizes = sorted(own or {0} if cluster else {*_SIZES, *own})
    panels = [_panel(one, sizes) for one in shown]
    numbers = sum(len(row) for panel in panels for row in (*panel["rounds"], *panel["messages"]))
    if numbers > _MAX_NUMBERS:
        raise UsageError(
            f"the page would hold {numbers // 6:,} messages, more than can be played: show fewer "
            "ranks, blocks or algorithms"
        )
    context = {
        "headline": _headline(shown),
        "panels": panels,
        "reduces": any(panel["reduces"] for panel in panels),
        "sizes": sizes,
        "first_size": sizes.index(max(one.nbytes for one in shown) or sizes[0]),
        "cluster": cluster,
        "link": str(shown[0].link),
        "alpha": shown[0].link.alpha,
    }
    return html_page("collective/player.html", context)


def _headline(shown: Sequence[Panel]) -> str:
    ranks = shown[0].schedule.ranks
    on = f"on {ranks} {'rank' if ranks == 1 else 'ranks'}"
    kinds = {one.schedule.collective.name for one in shown}
    if len(shown) == 1 or len(kinds) > 1:
        return f"{listed([one.title for one in shown])} {on}"
    return f"{kinds.pop()} {on}: {listed([one.schedule.algorithm for one in shown])}"


def _panel(shown: Panel, sizes: Sequence[int]) -> dict[str, Any]:
    """What the page knows of one algorithm; it carries out the rounds by itself."""
    schedule, cost, nbytes = shown.schedule, shown.cost, shown.nbytes
    if schedule.ranks > MAX_RANKS:
        raise UsageError(
            f"a page shows at most {MAX_RANKS} ranks, not {schedule.ranks}: show fewer, or leave "
            "out --html"
        )
    rounds = list(schedule.rounds())
    kind, places = layout(shown)
    return {
        "title": shown.title,
        "collective": schedule.collective.name,
        "algorithm": schedule.algorithm,
        "doc": [" ".join(part.split()) for part in shown.algorithm.doc.split("\n\n")],
        "ranks": schedule.ranks,
        "root": schedule.root if schedule.collective.rooted else -1,
        "hosts": schedule.hosts,
        "chunks": schedule.chunks,
        "result": schedule.result,
        "slots": schedule.slots,
        "reduces": schedule.collective.reduces,
        "data": bool(nbytes),
        "holds": _holds(schedule),
        "layout": kind,
        "trees": two_trees(schedule),
        "places": [[round(x, 4), round(y, 4)] for x, y in places],
        "rounds": [[int(n) for row in t.tolist() for n in row] for t in rounds],
        "phases": [[p.first, p.last, p.words, p.regular] for p in phases(schedule)],
        "busy": [round(busy_ports(t, schedule.ranks), 4) for t in rounds],
        "sent": round(int(cost.bytes_sent.max()) / nbytes, 4) if nbytes else 0,
        "reduced": round(int(cost.bytes_reduced.max()) / nbytes, 4) if nbytes else 0,
        "ends": [[_short(seconds) for seconds in one] for one in _ends(shown, rounds, sizes)],
        "messages": _messages(shown.timeline) if shown.timeline else [],
        "computed": format_seconds(shown.seconds),
        "simulated": told(shown.timeline) if shown.timeline else "",
        "findings": [[f.round, f.rank, f.chunk, f.what] for f in shown.findings or ()],
    }


def _ends(shown: Panel, rounds: Sequence[Round], sizes: Sequence[int]) -> Iterator[Iterable[float]]:
    """When each round ends for each size; on a cluster for the size that was simulated."""
    if shown.timeline:
        ends = np.zeros(len(rounds))
        ends[shown.timeline.rounds] = shown.timeline.ends
        yield np.maximum.accumulate(ends).tolist()
        return
    alpha, beta = shown.link.alpha, 1 / shown.link.bandwidth
    for size in sizes:
        yield round_ends(shown.schedule, size if shown.nbytes else 0, alpha, beta)


def _messages(simulated: ScheduleTimeline) -> list[tuple[int, int, int, float, float]]:
    """Of each message its round, who sends and who receives it, and when it leaves and arrives."""
    names = ("round", "src", "dst", "sent", "received")
    rows = zip(*(simulated.messages[name].tolist() for name in names), strict=True)
    return [(number, src, dst, _short(a), _short(b)) for number, src, dst, a, b in rows]


def _short(seconds: float) -> float:
    return float(f"{seconds:.5g}")


def _holds(schedule: Schedule) -> list[tuple[int, int]]:
    """The first slot and the number of slots that each rank holds at the beginning."""
    rows = schedule.collective.before(schedule.ranks, schedule.chunks, schedule.root)
    held = [rows[rows[:, 0] == rank, 1] for rank in range(schedule.ranks)]
    return [(int(slots.min()), len(slots)) if len(slots) else (0, 0) for slots in held]
