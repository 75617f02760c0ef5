"""What ranks send over a step along each axis, where calls were simulated and no messages."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Floats
from steptime.collectives.call_bytes import pair_bytes
from steptime.collectives.collective import COLLECTIVES
from steptime.program.pair_bytes import call_name
from steptime.report.kinds import with_like
from steptime.report.subject import Subject
from steptime.runs.figures import CallKind
from steptime.timeline import Phase

BINS = 240
_INSTANT = 1e-3  # of a bin: what a call takes at least


@dataclass(frozen=True, eq=False)
class Sending:
    """Bytes/s that a rank sends, mean of the ranks: ``rates`` of each axis, shape (axes, BINS).

    ``width``: of a bin, in seconds; the first begins with the step.
    """

    axes: list[str]
    rates: Floats
    width: float


def sending_of(subject: Subject) -> Sending | None:
    """What the ranks of the last step send, the busiest axis first; None where nobody can tell.

    A call's bytes are spread evenly over its time from when its last rank came until its end. The
    ranks that a timeline does not hold send what those of the same figures do.
    """
    timeline, known = subject.timeline, _sent_by(subject.entry.calls)
    if timeline is None or not known:
        return None
    steps = timeline.steps_named(subject.step)
    if not len(steps):
        return None
    last = steps[steps["step"] == steps["step"].max()]
    begin, end = float(last["start"].min()), float(last["end"].max())
    rows = timeline.between(begin, end).intervals
    rows = rows[(rows["phase"] == Phase.COMMUNICATION) & (rows["bytes"] > 0)]
    names = [call_name(name) for name in timeline.names]
    calls = [
        known.get((names[name], timeline.streams[stream], nbytes))
        for name, stream, nbytes in rows[["name", "stream", "bytes"]].tolist()
    ]
    if end <= begin or not calls or None in calls:
        return None
    told = [call for call in calls if call is not None]
    axes = list(dict.fromkeys(axis for axis, _ in told))
    weight = _weights(subject, last["rank"])[np.searchsorted(last["rank"], rows["rank"])]
    since = np.maximum(rows["start"], rows["ready"])
    sent = np.array([nbytes for _, nbytes in told]) * weight
    width = (end - begin) / BINS
    rates = np.zeros((len(axes), BINS))
    for at, axis in enumerate(axes):
        own = np.array([of == axis for of, _ in told])
        came, ended = ((time[own] - begin) / width for time in (since, rows["end"]))
        rates[at] = _spread(came, ended, sent[own]) / width
    order = np.argsort(-rates.sum(axis=1), kind="stable")
    order = order[rates[order].any(axis=1)]
    return Sending([axes[at] for at in order], rates[order], width) if len(order) else None


def _sent_by(calls: Sequence[CallKind]) -> dict[tuple[str, str, int], tuple[str, float]]:
    """The axis of each call, by its name, stream and bytes, and what a member sends in it."""
    found = {}
    for call in calls:
        sent = float(call.bytes) if call.kind == "send" else 0.0
        if call.kind in COLLECTIVES and call.members > 1:
            sent = float(pair_bytes(call.kind, call.bytes, call.members).sum()) / call.members
        found[call.name, call.stream, call.bytes] = (call.group or "all ranks", sent)
    return found


def _weights(subject: Subject, ranks: NDArray[np.int32]) -> Floats:
    """The part of all ranks that each of some ranks stands for, shape (ranks,)."""
    counts = [len(like) for like in with_like([[rank] for rank in ranks.tolist()], subject.entry)]
    return np.array(counts) / sum(counts)


def _spread(since: Floats, until: Floats, nbytes: Floats) -> Floats:
    """The bytes in each bin, shape (BINS,), of calls between times that are counted in bins."""
    lasts = np.maximum(until - since, _INSTANT)
    rate = nbytes / lasts
    times, change = np.concatenate([since, since + lasts]), np.concatenate([rate, -rate])
    order = np.argsort(times, kind="stable")
    times, slope = times[order], np.cumsum(change[order])
    sent = np.concatenate([[0.0], np.cumsum(slope[:-1] * np.diff(times))])
    return np.diff(np.interp(np.arange(BINS + 1.0), times, sent))
