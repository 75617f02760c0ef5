"""Measurements of a replay gathered from all ranks, and the timeline made of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Flags, Floats, Ints
from steptime.measure.transport import BenchTransport
from steptime.program import (
    Collective,
    Compute,
    Matching,
    Program,
    Recv,
    Send,
    Wait,
    match_calls,
)
from steptime.program.message_ends import MOST_MESSAGES, message_ends, messages_of_step
from steptime.replay.demand import labels_of
from steptime.replay.recording import ROW
from steptime.replay.replay import RankReplay
from steptime.timeline import INTERVAL, MESSAGE, Phase, Timeline
from steptime.timeline.waits import last_arrivals
from steptime.world.alignment import Alignment

STEP = "step"
_MOST_MATCHED = 2048
"""With more ranks the timeline has no messages and no waits: matching their ends takes seconds."""

_CALLS = (Collective, Send, Recv)


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """The measurements of all ranks.

    ``step_s``: shape (ranks, steps). ``spent``, ``under_way``: seconds as in RankReplay, each of
    shape (ranks, steps). ``wire``: bytes sent and received in a step, shape (ranks, 2), None where
    nothing went over TCP. ``resident``: bytes of each rank's process after the last step.
    ``timeline``: the last steps.
    """

    step_s: Floats
    spent: Mapping[str, Floats]
    under_way: Mapping[str, Floats]
    wire: Floats | None
    checked: int
    wrong: int
    resident: tuple[int, ...]
    timeline: Timeline


def gathered(world: BenchTransport, own: RankReplay, program: Program) -> Replayed:
    """Gather the measurements of all ranks on every rank; each calls it with its own."""
    labels, steps = labels_of(program), own.bounds.size - 1
    what, none = ("compute", "update", *labels), np.zeros(steps)
    spent = world.gather(np.stack([own.spent.get(one, none) for one in what]))
    under_way = world.gather(np.stack([none, *(own.under_way.get(one, none) for one in labels)]))[
        :, 1:
    ]
    wire = own.wire or (np.nan, np.nan)
    ends = world.gather(np.array([own.checked, own.wrong, *wire, own.resident_bytes], float))
    bounds = world.gather(own.bounds)
    wired = ends[:, 2:4] / steps
    counted = bool(wired.any())  # memory that ranks share is no wire, nor are MPI's own channels
    return Replayed(
        step_s=np.diff(bounds, axis=1),
        spent={one: spent[:, place] for place, one in enumerate(what)},
        under_way={one: under_way[:, place] for place, one in enumerate(labels)},
        wire=wired if counted and not np.isnan(wired).any() else None,
        checked=int(ends[:, 0].sum()),
        wrong=int(ends[:, 1].sum()),
        resident=tuple(map(int, ends[:, 4])),
        timeline=_aligned(program, bounds, _all_rows(world, own), own.alignment),
    )


def _aligned(
    program: Program, bounds: Floats, rows: Sequence[NDArray[np.void]], alignment: Alignment
) -> Timeline:
    """The timeline of all ranks by rank 0's clock, from the ``bounds`` and ``rows`` of each."""
    for rank, own in enumerate(rows):
        for edge in ("start", "end"):
            own[edge] = alignment.on_rank_0(rank, own[edge])
    times = np.stack([alignment.on_rank_0(rank, own) for rank, own in enumerate(bounds)])
    return replace(_timeline(program, times, rows), clocks=alignment.clocks())


def _all_rows(world: BenchTransport, own: RankReplay) -> list[NDArray[np.void]]:
    """The rows of each rank, dtype ROW."""
    counts = world.gather(np.array(float(own.rows.size))).astype(int)
    padded = np.zeros((int(counts.max()), len(ROW.names or ())))
    for column, field in enumerate(ROW.names or ()):
        padded[: own.rows.size, column] = own.rows[field]
    every = world.gather(padded)
    found = []
    for rank, count in enumerate(counts.tolist()):
        rows = np.empty(count, ROW)
        for column, field in enumerate(ROW.names or ()):
            rows[field] = every[rank, :count, column]
        found.append(rows)
    return found


def _timeline(program: Program, bounds: Floats, rows: Sequence[NDArray[np.void]]) -> Timeline:
    ops = [op for of_class in program.lists for op in of_class]
    names = {
        name: at for at, name in enumerate(dict.fromkeys([program.name, *(o.name for o in ops)]))
    }
    streams = {name: at for at, name in enumerate(dict.fromkeys([STEP, *(o.stream for o in ops)]))}
    parts = []
    matching = match_calls(program) if program.ranks <= _MOST_MATCHED else None
    ready = _ready(program, matching, rows)
    for rank, own in enumerate(rows):
        listed = program.lists[program.class_of[rank]]
        timed = np.array([not isinstance(op, Wait) for op in listed], np.bool_)[own["place"]]
        kept = own[timed]
        found = np.zeros(kept.size, INTERVAL)
        found["ready"] = ready[rank][timed]
        for field in ("step", "start", "end"):
            found[field] = kept[field]
        for field, value in (
            ("stream", [streams[op.stream] for op in listed]),
            ("name", [names[op.name] for op in listed]),
            (
                "phase",
                [op.phase if isinstance(op, Compute) else Phase.COMMUNICATION for op in listed],
            ),
            ("bytes", [o.nbytes if isinstance(o, Collective | Send | Recv) else 0 for o in listed]),
        ):
            found[field] = np.array(value)[kept["place"]] if kept.size else 0
        first = int(own["step"].min()) if own.size else 0
        count = int(own["step"].max()) - first + 1 if own.size else 0
        steps = np.zeros(count, INTERVAL)
        steps["start"], steps["end"] = (
            bounds[rank, -count - 1 : -1],
            bounds[rank, bounds.shape[1] - count :],
        )
        steps["step"], steps["phase"] = np.arange(first, first + count), Phase.STEP
        steps["name"], steps["stream"] = names[program.name], streams[STEP]
        for one in (found, steps):
            one["rank"] = rank
        parts += [steps, found]
    return Timeline(
        source="measured",
        ranks=program.ranks,
        names=tuple(names),
        streams=tuple(streams),
        intervals=np.concatenate(parts),
        messages=np.empty(0, MESSAGE) if matching is None else _messages(program, matching, rows),
    )


def _ready(
    program: Program, matching: Matching | None, rows: Sequence[NDArray[np.void]]
) -> list[Floats]:
    """Of each rank's rows when the last rank that each call waited for came, 0 where none did."""
    counts = [own.size for own in rows]
    ready = np.zeros(sum(counts))
    if matching is not None:
        every, kinds = np.concatenate(rows), program.class_of.tolist()
        calls = [np.array([isinstance(op, _CALLS) for op in ops]) for ops in program.lists]
        call = np.concatenate(
            [
                _calls(matching, rank, calls[kind])[own["place"]]
                for rank, (kind, own) in enumerate(zip(kinds, rows, strict=True))
            ]
        )
        known = call >= 0
        step = every["step"].astype(np.int64)[known] * matching.call.size
        of_known = (every[edge][known] for edge in ("start", "end"))
        ready[known] = last_arrivals(call[known] + step, *of_known)
    return np.split(ready, np.cumsum(counts)[:-1])


def _calls(matching: Matching, rank: int, is_call: Flags) -> Ints:
    """The instance of a call that each op of a rank's list is a part of, -1 for none."""
    found = np.full(is_call.size, -1, np.int32)
    found[is_call] = matching.instance[slice(*matching.parts_of[rank : rank + 2])]
    return found


def _messages(
    program: Program, matching: Matching, rows: Sequence[NDArray[np.void]]
) -> NDArray[np.void]:
    """The messages of Sends in the steps of which every rank has kept all rows, dtype ROW."""
    ends = message_ends(program, matching)
    lists = [program.lists[kind] for kind in program.class_of.tolist()]
    steps = set.intersection(*(set(own["step"].tolist()) for own in rows))
    if not 0 < ends.size * len(steps) <= MOST_MESSAGES:
        return np.empty(0, MESSAGE)
    found = [np.empty(0, MESSAGE)]
    for step in sorted(steps):
        own = [of[of["step"] == step] for of in rows]
        times = {}
        for rank, (done, ops) in enumerate(zip(own, lists, strict=True)):
            times[rank] = np.full((len(ops), 2), np.nan)
            times[rank][done["place"]] = np.stack([done["start"], done["end"]], axis=1)
        arrived = messages_of_step(ends, times)
        found.append(arrived[np.isfinite(arrived["received"])])
    return np.concatenate(found)
