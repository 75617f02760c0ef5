"""From the traces of ranks to a Program: one of their steps, as what computes and communicates.

A trace tells when things ran and not what they waited for, so that is read off the times: a call
follows what its rank had computed when it began, and what a rank computes after it had nothing to
do but wait follows the calls that had ended by then. Time in which a rank neither computed nor
communicated, as where its device had nothing to do, counts as computing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from steptime.errors import UsageError
from steptime.program import Collective, Compute, Op, Program, Recv, Send, Wait
from steptime.program.chakra.foreign import Mesh
from steptime.program.chakra.mesh import mesh
from steptime.program.check import check
from steptime.record.traces.opening import Trace
from steptime.record.traces.timeline import calls_by_step, common_steps
from steptime.record.traces.trace import Call, RankTrace, Span, Step
from steptime.timeline import Phase

_WORK = {Phase.COMPUTE: "compute", Phase.UPDATE: "update"}


class _Piece(NamedTuple):
    """A piece of a rank's time in which it did one thing: compute, update or wait."""

    what: str
    begin: int
    end: int


@dataclass(frozen=True)
class _RankStep:
    """One step of a rank: its pieces in order, and its calls in the order of their issue."""

    rank: int
    pieces: Sequence[_Piece]
    calls: Sequence[Call]


def trace_program(trace: Trace) -> Program:
    """The step of median length of a trace as a Program.

    A rank that has no trace is taken to do what the first one does, where all calls are among all
    ranks. Raises UsageError where that cannot be, or where the ranks' calls do not fit together.
    """
    steps = common_steps(trace)
    longest = [max(of.end - of.begin for of in same) for same in zip(*steps, strict=True)]
    median = int(np.argsort(longest, kind="stable")[(len(longest) - 1) // 2])
    ranks = [
        _rank_step(one, of_rank, median) for one, of_rank in zip(trace.ranks, steps, strict=True)
    ]
    where = _mesh(trace, ranks)
    lists: dict[tuple[Op, ...], int] = {}
    class_of = np.zeros(trace.world_size, np.int32)
    for one in ranks:
        kind = lists.setdefault(tuple(_ops(one, where)), len(lists))
        class_of[one.rank] = kind
    program = Program(name=trace.name, axes=where.axes, lists=tuple(lists), class_of=class_of)
    check(program)
    return program


def _mesh(trace: Trace, ranks: Sequence[_RankStep]) -> Mesh:
    world = tuple(range(trace.world_size))
    calls = [call for one in ranks for call in one.calls]
    collectives = {tuple(sorted(call.group.ranks)) for call in calls if _is_collective(call)}
    missing = trace.world_size - len(trace.ranks)
    if missing and (collectives - {world} or not all(map(_is_collective, calls))):
        raise UsageError(
            f"{trace.name} lacks the traces of {missing} of {trace.world_size} ranks, and some "
            "calls are not among all ranks: give the traces of all"
        )
    axes, along = mesh(trace.world_size, collectives)
    names = list(axes)
    return Mesh(
        {},
        trace.world_size,
        axes,
        {group: tuple(names[i] for i in along[group]) for group in along},
    )


def _is_collective(call: Call) -> bool:
    return call.kind not in ("send", "recv")


def _rank_step(one: RankTrace, steps: Sequence[Step], at: int) -> _RankStep:
    step = steps[at]
    calls = [call for place, call in calls_by_step(one, steps) if place == at]
    work = [span for span in one.spans if span.phase in _WORK and span.end > step.begin]
    work = [span for span in work if span.begin < step.end]
    pieces = list(_pieces(step, work, calls))
    issued = sorted(calls, key=lambda call: call.issued or call.begin)
    return _RankStep(one.rank, pieces, issued)


def _pieces(step: Step, work: Sequence[Span], calls: Sequence[Call]) -> Iterator[_Piece]:
    """The step cut wherever a call begins or what the rank does changes."""
    cuts = {step.begin, step.end}
    cuts |= {edge for one in work for edge in (one.begin, one.end)}
    cuts |= {edge for one in calls for edge in (one.begin, one.end)}
    starts = {call.begin for call in calls}
    edges = sorted(edge for edge in cuts if step.begin <= edge <= step.end)
    count: dict[str, int] = {"compute": 0, "update": 0, "wait": 0}
    changes: dict[int, list[tuple[str, int]]] = {}
    for name, begin, end in [
        *((_WORK[one.phase], one.begin, one.end) for one in work),
        *(("wait", one.begin, one.end) for one in calls),
    ]:
        if end > begin:
            changes.setdefault(max(begin, step.begin), []).append((name, 1))
            changes.setdefault(min(end, step.end), []).append((name, -1))
    open_piece: _Piece | None = None
    for begin, end in pairwise(edges):
        for name, by in changes.get(begin, ()):
            count[name] += by
        what = next((name for name, of in count.items() if of), "compute")
        if open_piece is not None and (open_piece.what != what or begin in starts):
            yield open_piece
            open_piece = None
        open_piece = _Piece(what, open_piece.begin if open_piece else begin, end)
    if open_piece is not None:
        yield open_piece


def _ops(one: _RankStep, where: Mesh) -> list[Op]:
    """The step of a rank: its work in order, with the calls where they begin."""
    ops: list[Op] = []
    placed: list[tuple[int, int]] = []  # of each call that is placed: its end, and its position
    awaited: set[int] = set()
    left = list(one.calls)
    last: tuple[int, ...] = ()
    waited = 0  # until when it has waited

    def place(call: Call) -> None:
        placed.append((call.end, len(ops)))
        ops.append(replace(_call_op(call, one.rank, where), after=last))

    for piece in one.pieces:
        while left and left[0].begin <= piece.begin:
            place(left.pop(0))
        if piece.what == "wait":
            waited = piece.end
            continue
        over = {at for end, at in placed if end <= waited} - awaited
        awaited |= over
        phase = Phase.UPDATE if piece.what == "update" else Phase.COMPUTE
        seconds = (piece.end - piece.begin) / 1e9
        last = (len(ops),)
        after = tuple(sorted(over))
        ops.append(Compute(name=piece.what, seconds=seconds, phase=phase, after=after))
    for call in left:
        place(call)
    rest = tuple(sorted({at for _, at in placed} - awaited))
    return [*ops, Wait(name="end", after=rest)] if rest else ops


def _call_op(call: Call, rank: int, where: Mesh) -> Op:
    if _is_collective(call):
        return Collective(
            name=call.kind,
            kind=call.kind,
            group=where.along[tuple(sorted(call.group.ranks))],
            nbytes=call.nbytes,
            root=max(0, call.peer),
            stream=call.stream,
        )
    if not 0 <= call.peer < len(call.group.ranks):
        raise UsageError(f"a {call.kind} of rank {rank} does not tell its peer")
    axis, by = where.step(rank, call.group.ranks[call.peer])
    kind = Send if call.kind == "send" else Recv
    return kind(name=call.kind, axis=axis, by=by, nbytes=call.nbytes, stream=f"{call.kind} {axis}")
