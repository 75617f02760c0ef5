"""The table of calls: every kind of collective or message and size, what it takes and moves."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steptime.collectives.call_bytes import bus_factor
from steptime.collectives.collective import COLLECTIVES
from steptime.program.pair_bytes import call_name
from steptime.report.section import Page, Section
from steptime.report.subject import Subject
from steptime.runs.figures import CallKind
from steptime.timeline import Phase, Timeline
from steptime.units import format_bytes, format_rate, format_seconds

MOST_ROWS = 40
_KINDS = (*COLLECTIVES, "send", "recv")


@dataclass(frozen=True, kw_only=True)
class CallRow:
    """One kind of call and size, mean of the steps that count.

    ``members``: how many ranks take part, 0 where nobody knows. ``calls`` a rank makes in a step,
    mean of the ranks; ``seconds`` that one takes, from a rank's begin to its end, waiting for the
    others included; ``busy_s`` and ``exposed_s`` a rank spends in a step, all together and while it
    computes nothing. ``share`` and ``exposed``: the same of the step.
    """

    name: str
    kind: str
    group: str
    members: int
    nbytes: int
    calls: float
    seconds: float
    share: float
    exposed: float

    @property
    def algbw(self) -> float | None:
        """Bytes over time, in bytes/s."""
        return self.nbytes / self.seconds if self.nbytes and self.seconds else None

    @property
    def busbw(self) -> float | None:
        """What that asks of the busiest link, in bytes/s."""
        algbw = self.algbw
        return algbw * bus_factor(self.kind, self.members) if algbw and self.members > 1 else None


@dataclass(frozen=True, eq=False)
class _Steps:
    """The ranks of a timeline in the steps that count."""

    rows: NDArray[np.void]
    exposed: NDArray[np.float64]
    rank_steps: int
    whole_s: float


def call_table(subject: Subject) -> tuple[list[CallRow], int]:
    """The rows that take the most of the step, at most MOST_ROWS, and how many are left out."""
    timeline = subject.timeline
    if timeline is None:
        return [], 0
    steps = _steps(timeline, subject)
    if steps is None:
        return [], 0
    rows = sorted(_rows(timeline, subject, steps), key=lambda row: -row.share)
    return rows[:MOST_ROWS], max(0, len(rows) - MOST_ROWS)


def _rows(timeline: Timeline, subject: Subject, steps: _Steps) -> Iterator[CallRow]:
    known = {(call.name, call.stream, call.bytes): call for call in subject.entry.calls}
    names = np.array([call_name(name) for name in timeline.names])
    texts, number = np.unique(names, return_inverse=True)
    keys = np.stack(
        [number[steps.rows["name"]], steps.rows["stream"], steps.rows["bytes"]], axis=1
    ).astype(np.int64)
    kinds, which = np.unique(keys, axis=0, return_inverse=True)
    lasted = steps.rows["end"] - steps.rows["start"]
    for at, (name, stream, nbytes) in enumerate(kinds.tolist()):
        mine = which.ravel() == at
        text, lane = str(texts[name]), timeline.streams[stream]
        call = known.get((text, lane, nbytes)) or _assumed(text, lane, nbytes, subject)
        yield CallRow(
            name=text,
            kind=call.kind,
            group=call.group,
            members=call.members,
            nbytes=nbytes,
            calls=float(mine.sum()) / steps.rank_steps,
            seconds=float(lasted[mine].mean()),
            share=float(lasted[mine].sum()) / steps.whole_s,
            exposed=float(steps.exposed[mine].sum()) / steps.whole_s,
        )


def _assumed(name: str, stream: str, nbytes: int, subject: Subject) -> CallKind:
    """Where run.json does not say: training calls its collectives by their kinds, on all ranks."""
    kind = name if name in _KINDS else ""
    everyone = kind and not subject.entry.calls
    members = subject.ranks * bool(everyone)
    return CallKind(name=name, stream=stream, bytes=nbytes, kind=kind, group="", members=members)


def _steps(timeline: Timeline, subject: Subject) -> _Steps | None:
    """The calls within the steps that count, and how much of each is exposed."""
    steps = timeline.steps_named(subject.step)
    steps = steps[steps["step"] >= subject.first_step]
    whole = float((steps["end"] - steps["start"]).sum())
    if not len(steps) or not whole:
        return None
    found, exposed = [], []
    for rank in np.unique(steps["rank"]):
        own = timeline.intervals[timeline.intervals["rank"] == rank]
        mine = steps[steps["rank"] == rank]
        calls = own[own["phase"] == Phase.COMMUNICATION]
        step = np.searchsorted(mine["start"], calls["start"], side="right") - 1
        calls = calls[(step >= 0) & (calls["start"] < mine["end"][step])]
        found.append(calls)
        exposed.append(_uncovered(own, calls))
    rows = np.concatenate(found)
    return _Steps(rows, np.concatenate(exposed), len(steps), whole) if len(rows) else None


def _uncovered(own: NDArray[np.void], calls: NDArray[np.void]) -> NDArray[np.float64]:
    """The seconds of each call in which its rank neither computes nor updates, shape (calls,)."""
    busy = own[np.isin(own["phase"], (Phase.COMPUTE, Phase.UPDATE))]
    edges = np.unique(np.concatenate([busy["start"], busy["end"], calls["start"], calls["end"]]))
    change = np.zeros(len(edges), np.int64)
    np.add.at(change, np.searchsorted(edges, busy["start"]), 1)
    np.add.at(change, np.searchsorted(edges, busy["end"]), -1)
    free = np.cumsum(change)[:-1] <= 0
    until = np.zeros(len(edges))
    np.cumsum(np.diff(edges) * free, out=until[1:])
    first, last = (np.searchsorted(edges, calls[field]) for field in ("start", "end"))
    return np.asarray(until[last] - until[first])


def has_kinds(rows: Sequence[CallRow]) -> bool:
    """Whether any row tells more of its kind than its name does."""
    return any(row.kind and row.kind != row.name for row in rows)


def _shown(page: Page) -> Mapping[str, Any] | None:
    tables = [_lines(*call_table(one)) for one in page.subjects]
    return {"calls": tables} if any(table["rows"] for table in tables) else None


def _lines(rows: Sequence[CallRow], left_out: int) -> dict[str, Any]:
    """The table of calls as text."""
    lines = [
        {
            "name": row.name,
            "kind": row.kind or "–",
            "group": f"{row.group} " * bool(row.group)
            + (f"{row.members:,}" if row.members else ""),
            "bytes": format_bytes(row.nbytes) if row.nbytes else "–",
            "calls": f"{row.calls:,.1f}".removesuffix(".0"),
            "time": format_seconds(row.seconds),
            "algbw": format_rate(row.algbw) if row.algbw else "–",
            "busbw": format_rate(row.busbw) if row.busbw else "–",
            "share": _percent(row.share),
            "exposed": _percent(row.exposed),
        }
        for row in rows
    ]
    return {"rows": lines, "left_out": left_out, "kinds": has_kinds(rows)}


def _percent(share: float) -> str:
    return f"{100 * share:.1f}\u00a0%"


SECTION = Section("calls", 80, _shown)
