"""The heat maps of traffic: bytes of a step from each rank to each other, and from host to host."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from steptime.arrays import Floats
from steptime.collectives import COLLECTIVES
from steptime.collectives.call_bytes import pair_bytes
from steptime.report.figures import Figure, axis, label, layout
from steptime.report.section import Page, Section
from steptime.report.sections.calls import CallRow, call_table
from steptime.report.subject import Subject
from steptime.units import format_bytes

MOST_RANKS = 512
_ALL_NAMED, _SOME_NAMED = 16, 8  # ranks along a side of a heat map: of more, some are named
_NEAR = 0.01  # of what a rank sends: computed from calls, it may be that far off
_RAMP = (
    [0, "rgba(0,114,178,0)"],
    [1e-6, "rgba(86,180,233,0.2)"],
    [0.5, "#0072B2"],
    [1, "--deepest"],
)


@dataclass(frozen=True, eq=False)
class Traffic:
    """Bytes of a step, shape (ranks, ranks), row to column, and where they come from, in words."""

    sent: Floats
    how: str
    source: str


def traffic_of(subject: Subject, calls: Sequence[CallRow]) -> Traffic | None:
    """What goes from each rank to each other, or None where nobody can tell.

    From run.json where that holds it, else from the messages of the timeline, else computed from
    the calls of training, which are all of all ranks.
    """
    ranks = subject.ranks
    if ranks > MOST_RANKS:
        return None
    pairs = subject.entry.pairs
    if pairs:
        sent = np.zeros((ranks, ranks))
        np.add.at(sent, (pairs.src, pairs.dst), pairs.bytes)
        if subject.entry.source == "simulated" and subject.entry.link_use:
            return Traffic(sent, "Counted from the simulated messages of a step.", "simulated")
        return Traffic(sent, _AS_RINGS, "computed")
    return _computed(subject, calls, ranks)


_AS_RINGS = (
    "Computed from the calls of a step: all_reduce, reduce_scatter and all_gather as rings, those "
    "with a root as messages to and from it. What the library sends may go other ways."
)


def _computed(subject: Subject, calls: Sequence[CallRow], ranks: int) -> Traffic | None:
    """From the calls; None where these do not add up to what run.json says of each rank."""
    sent_by_rank = subject.entry.bytes_sent_per_rank
    received_by_rank = subject.entry.bytes_received_per_rank
    if (
        not calls
        or len(sent_by_rank) != ranks
        or any(row.members not in (0, ranks) for row in calls)
    ):
        return None
    sent = np.zeros((ranks, ranks))
    even = max(sent_by_rank) - min(sent_by_rank) <= _NEAR * max(sent_by_rank)
    for row in calls:
        if row.kind in ("reduce", "broadcast", "gather", "scatter") and even and row.nbytes:
            # The roots take turns: each rank is the root as often as any other.
            both = sum(pair_bytes(row.kind, row.nbytes, ranks, root) for root in range(ranks))
            sent += row.calls / ranks * both
        elif row.kind in COLLECTIVES:  # a message has no pattern, and other rows move nothing
            root = int(np.argmax(sent_by_rank)) if row.kind in ("broadcast", "scatter") else 0
            root = int(np.argmax(received_by_rank)) if row.kind in ("reduce", "gather") else root
            sent += row.calls * pair_bytes(row.kind, row.nbytes, ranks, root)
    most = max(max(sent_by_rank), 1)
    if np.abs(sent.sum(axis=1) - sent_by_rank).max() > _NEAR * most:
        return None
    return Traffic(sent, _AS_RINGS, "computed")


def between_hosts(traffic: Traffic, hosts: Sequence[str]) -> tuple[list[str], Floats]:
    """The hosts in order, and the bytes from each to each other, shape (hosts, hosts)."""
    names = list(dict.fromkeys(hosts))
    if len(names) < 2:
        return names, np.full((1, 1), traffic.sent.sum())
    place = np.array([names.index(host) for host in hosts])
    sent = np.zeros((len(names), len(names)))
    np.add.at(sent, (place[:, None], place[None, :]), traffic.sent)
    return names, sent


def hosts_of(subject: Subject) -> list[str]:
    """The host of each rank."""
    return [rank.host for rank in subject.entry.ranks]


def matrix_figures(subject: Subject, calls: Sequence[CallRow]) -> Mapping[str, Any] | None:
    """The heat maps of a strategy, with a note that says what they show; None for none."""
    traffic = traffic_of(subject, calls)
    if traffic is None or not traffic.sent.any():
        return None
    hosts = hosts_of(subject)
    names, by_host = between_hosts(traffic, hosts if len(hosts) == len(traffic.sent) else ())
    ranks = [str(rank) for rank in range(len(traffic.sent))]
    figures = [_heat_map("rank", ranks, traffic.sent)]
    if len(names) > 1:
        figures.append(_heat_map("host", [label(name) for name in names], by_host))
    return {"figures": figures, "note": _note(traffic, names, by_host), "source": traffic.source}


def _note(traffic: Traffic, hosts: Sequence[str], by_host: Floats) -> str:
    whole = float(traffic.sent.sum())
    note = f"{format_bytes(whole)} in a step, all ranks together"
    if len(hosts) > 1:
        leaves = 100 * (1 - float(np.trace(by_host)) / whole)
        note += f", {leaves:.0f}\u00a0% of it from one host to another"
    return f"{note}. {traffic.how}"


def _heat_map(of: str, names: Sequence[str], sent: Floats) -> Figure:
    most = float(sent.max()) or 1.0
    ticks = [0.0, most / 2, most]
    every = 1 if len(names) <= _ALL_NAMED else -(-len(names) // _SOME_NAMED)
    shown = list(range(0, len(names), every))
    sides = {"tickvals": shown, "ticktext": [names[i] for i in shown], "showgrid": False}
    upright = {"tickangle": 90} if every > 1 else {}  # aslant they would touch
    size = f"{len(names)}×{len(names)}"
    return {
        "data": [
            {
                "type": "heatmap",
                "z": _numbers(sent),
                "zmin": 0,
                "zmax": most,
                "colorscale": [list(stop) for stop in _RAMP],
                "xgap": 1 if len(names) <= 48 else 0,
                "ygap": 1 if len(names) <= 48 else 0,
                "hovertemplate": f"{of} %{{y}} to {of} %{{x}}: <b>%{{z:.3s}}B</b><extra></extra>",
                "colorbar": {
                    "tickvals": ticks,
                    "ticktext": [format_bytes(value) for value in ticks],
                    "thickness": 10,
                    "outlinewidth": 0,
                },
            }
        ],
        "layout": layout(
            360,
            xaxis=axis(
                f"to {of}",
                constrain="domain",
                range=[-0.5, len(names) - 0.5],
                **sides,
                **upright,
            ),
            yaxis=axis(
                f"from {of}",
                range=[len(names) - 0.5, -0.5],
                scaleanchor="x",
                constrain="domain",
                **sides,
            ),
        ),
        "label": f"{size} heat map of bytes from {of} to {of}",
    }


def _numbers(sent: Floats) -> Any:
    """As lists where they are few, else as plotly.js reads base64, within 0.02 %.

    The page tells three digits; the bits behind them would take most of its room.
    """
    if sent.size <= 1024:
        return np.round(sent).tolist()
    import base64

    near = (sent.astype("<f4").view("<u4") + 0x800) & 0xFFFFF000
    packed = base64.b64encode(near.astype("<u4").tobytes()).decode()
    return {"dtype": "f4", "bdata": packed, "shape": f"{len(sent)}, {len(sent)}"}


def _shown(page: Page) -> Mapping[str, Any] | None:
    found = [matrix_figures(one, call_table(one)[0]) for one in page.subjects]
    return {"figures": {"matrix": found}} if any(found) else None


SECTION = Section("matrix", 70, _shown)
