"""The page that plays collective algorithms step by step: one HTML file that needs no network."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from steptime.collectives import Schedule
from steptime.collectives.picture import busy_ports, phases
from steptime.collectives.price import round_ends
from steptime.errors import UsageError
from steptime.report.collective.exhibit import Exhibit
from steptime.report.collective.layout import layout
from steptime.report.template import write_html

MAX_RANKS = 64
_MAX_NUMBERS = 250_000  # in the rounds of a page, about a MB
_SIZES = tuple(1 << power for power in range(10, 31, 2))


def write_page(path: Path, shown: Sequence[Exhibit]) -> None:
    """Write a page that plays ``shown`` side by side to ``path``, atomically.

    Raises UsageError when they have more ranks or messages than a page can show.
    """
    sizes = sorted({*_SIZES, *(one.nbytes for one in shown if one.nbytes)})
    panels = [_panel(one, sizes) for one in shown]
    numbers = sum(len(transfers) for panel in panels for transfers in panel["rounds"])
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
        "link": str(shown[0].link),
        "alpha": shown[0].link.alpha,
    }
    write_html(path, "collective/player.html", context)


def _headline(shown: Sequence[Exhibit]) -> str:
    ranks = shown[0].schedule.ranks
    on = f"on {ranks} {'rank' if ranks == 1 else 'ranks'}"
    kinds = {one.schedule.collective.name for one in shown}
    if len(shown) == 1 or len(kinds) > 1:
        return f"{_listed([one.title for one in shown])} {on}"
    return f"{kinds.pop()} {on}: {_listed([one.schedule.algorithm for one in shown])}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _panel(shown: Exhibit, sizes: Sequence[int]) -> dict[str, Any]:
    """What the page knows of one algorithm; it carries out the rounds by itself."""
    schedule, cost, nbytes = shown.schedule, shown.cost, shown.nbytes
    if schedule.ranks > MAX_RANKS:
        raise UsageError(
            f"a page shows at most {MAX_RANKS} ranks, not {schedule.ranks}: show fewer, or leave "
            "out --html"
        )
    rounds = list(schedule.rounds())
    kind, places = layout(shown)
    alpha, beta = shown.link.alpha, 1 / shown.link.bandwidth
    ends = (round_ends(schedule, size if nbytes else 0, alpha, beta) for size in sizes)
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
        "places": [[round(x, 4), round(y, 4)] for x, y in places],
        "rounds": [[int(n) for row in t.tolist() for n in row] for t in rounds],
        "phases": [[p.first, p.last, p.words, p.regular] for p in phases(schedule)],
        "busy": [round(busy_ports(t, schedule.ranks), 4) for t in rounds],
        "sent": round(int(cost.bytes_sent.max()) / nbytes, 4) if nbytes else 0,
        "reduced": round(int(cost.bytes_reduced.max()) / nbytes, 4) if nbytes else 0,
        "ends": [[float(f"{seconds:.4g}") for seconds in one] for one in ends],
    }


def _holds(schedule: Schedule) -> list[tuple[int, int]]:
    """The first slot and the number of slots that each rank holds at the beginning."""
    rows = schedule.collective.before(schedule.ranks, schedule.chunks, schedule.root)
    held = [rows[rows[:, 0] == rank, 1] for rank in range(schedule.ranks)]
    return [(int(slots.min()), len(slots)) if len(slots) else (0, 0) for slots in held]
