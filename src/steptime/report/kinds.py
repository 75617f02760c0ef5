"""Ranks of one kind, which do the same at the same times: they share a row and a name."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from steptime.program import PIPELINE
from steptime.report.alike import alike, ranks_text
from steptime.runs.figures import PARTS, RankFigures, StepFigures
from steptime.timeline import Timeline

_APART = 8  # so many ranks each have their own row: messages between them show
_TOLD = ("name", "phase", "stream", "bytes")
_TIMES = ("start", "end", "ready")


def kinds_of(timeline: Timeline, table: NDArray[np.void], tick: float) -> list[list[int]]:
    """The ranks of ``table``, as ``by_rank`` gives it, in groups that do the same at the same time.

    Over all its steps, and to within a ``tick``, in seconds.
    """
    ranks: list[int] = table["rank"][:, 0].tolist()
    if len(ranks) <= _APART:
        return [[rank] for rank in ranks]
    begin = float(table["start"].min())
    rows = timeline.between(begin, float(table["end"].max())).intervals
    rows = np.sort(rows[np.isin(rows["rank"], ranks)], order=["rank", "stream", "start", "end"])
    columns = [rows[field].astype(np.int64) for field in _TOLD]
    columns += [np.round((rows[field] - begin) / tick).astype(np.int64) for field in _TIMES]
    done = np.stack(columns, axis=1)  # (rows, fields)
    first = np.searchsorted(rows["rank"], ranks)
    past = np.searchsorted(rows["rank"], ranks, side="right")
    places = alike(range(len(ranks)), lambda at: done[first[at] : past[at]].tobytes())
    return [[ranks[at] for at in group] for group in places]


def with_like(groups: Sequence[Sequence[int]], entry: StepFigures) -> list[list[int]]:
    """The groups, each with the ranks that no group holds and whose figures are those of its first.

    Where the first ones of two groups have the same figures, nobody can tell, and both stay.
    """
    held = {rank for group in groups for rank in group}
    of = {one.rank: _figures(one, entry) for one in entry.ranks}
    others = alike((rank for rank in of if rank not in held), lambda rank: of[rank])
    like = {of[ranks[0]]: ranks for ranks in others}
    firsts = [of.get(group[0]) for group in groups]
    return [
        sorted([*group, *(like.get(first, ()) if first and firsts.count(first) == 1 else ())])
        for group, first in zip(groups, firsts, strict=True)
    ]


def _figures(one: RankFigures, entry: StepFigures) -> tuple[float | None, ...]:
    own = (getattr(one, part) for part in ("step_time_s", *PARTS))
    return (_stage(one.rank, entry), *own)


def name_of(ranks: Sequence[int], entry: StepFigures | None = None) -> str:
    """``ranks 0–7 of stage 0``: some ranks, with the stage of a pipeline that all share."""
    stages = {_stage(rank, entry) for rank in ranks} if entry else {None}
    stage = stages.pop()
    return ranks_text(ranks) + (f" of stage {stage}" if not stages and stage is not None else "")


def _stage(rank: int, entry: StepFigures) -> int | None:
    """The stage of a pipeline that a rank is; None where there is no pipeline."""
    for axis in entry.placement:
        if axis.axis == PIPELINE and axis.size > 1:
            return rank // axis.stride % axis.size
    return None
