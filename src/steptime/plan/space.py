"""The space of a plan: every layout that a model, its batch and a number of ranks allow.

Layouts are rows of an array. Each axis in turn multiplies the rows by its choices, and what cannot
be is dropped at once, so that the array never grows far beyond what it becomes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from steptime.arrays import Flags
from steptime.errors import UsageError
from steptime.predict.layouts import (
    LAYOUT,
    PRECISIONS,
    RECOMPUTES,
    SCHEDULES,
    Layouts,
    ranks_of,
)
from steptime.workloads.divide import check_divides, check_pieces, divisors, lays_out, nearest
from steptime.workloads.models import Transformer
from steptime.workloads.spec import Precision

PLAIN, INTERLEAVED, GPIPE = (SCHEDULES.index(n) for n in ("1f1b", "interleaved", "gpipe"))
_ZERO = (0, 1, 2, 3)
_MOST = 1 << 22
_AXES = ("tensor", "context", "expert", "data", "pipeline")


@dataclass(frozen=True, kw_only=True)
class Space:
    """What is searched: a step of ``batch`` rows of ``tokens`` tokens on so many ``ranks``.

    ``shards_in_pipelines``: whether ZeRO 2 and 3 go with several stages, as FSDP's do.
    ``fixed``: columns of LAYOUT with the only value that they may have; a schedule and what is
    recomputed by their names.
    """

    model: Transformer
    ranks: int
    batch: int
    tokens: int
    precisions: Sequence[Precision] = ("bf16",)
    shards_in_pipelines: bool = False
    fixed: dict[str, Any] = field(default_factory=dict)

    def choices(self, name: str, every: Sequence[int]) -> list[int]:
        """The values of a column: the fixed one where there is one, else ``every``."""
        if name not in self.fixed:
            return list(every)
        value = self.fixed[name]
        if name == "schedule":
            value = SCHEDULES.index(value)
        return [RECOMPUTES.index(value) if name == "recompute" else int(value)]


def layouts_in(space: Space) -> Layouts:
    """Every layout of a space, dtype LAYOUT, shape (layouts,), in a fixed order.

    Raises UsageError where what is fixed leaves none; it names the nearest values that do.
    """
    _check_fixed(space)
    rows = np.ones(1, LAYOUT)
    rows["tokens"] = space.tokens
    for cross in (_meshes, _pipelines, _micro_batches, _schedules, _savings):
        rows = cross(space, rows)
        if not rows.size:
            raise UsageError(_nothing(space, cross.__name__))
    return rows


def _kept(rows: Layouts, able: Flags) -> Layouts:
    """The rows that are able."""
    return np.asarray(rows[able])


def _crossed(rows: Layouts, name: str, values: Sequence[int]) -> Layouts:
    """Every row with every value of a column; UsageError where that is more than memory holds."""
    if rows.size * len(values) > _MOST:
        raise UsageError(
            f"there are more than {_MOST:,} layouts: fix some of what is searched, as --tensor, "
            "--pipeline or --rows, or give --batch a number with fewer divisors"
        )
    found = np.repeat(rows, len(values))
    found[name] = np.tile(np.asarray(values, np.int64), rows.size)
    return found


def _meshes(space: Space, rows: Layouts) -> Layouts:
    """Ranks along each axis, which come to all ranks and divide what they share."""
    model, of_ranks = space.model, divisors(space.ranks)
    share = {
        "tensor": [n for n in of_ranks if all(not x % n for x in model.split.values())],
        "context": [n for n in of_ranks if n == 1 or not space.tokens % (2 * n)],
        "expert": [n for n in of_ranks if n == 1 or (model.experts > 1 and not model.experts % n)],
        "pipeline": [n for n in of_ranks if lays_out(model.layers, n)],
    }
    for name, every in share.items():
        rows = _crossed(rows, name, space.choices(name, every))
        rows = rows[space.ranks % ranks_of(rows) == 0]
    rows["data"] = space.ranks // ranks_of(rows)
    replicas = rows["data"] * rows["expert"]
    able = (replicas <= space.batch) & (space.batch % replicas == 0)
    if "data" in space.fixed:
        able &= rows["data"] == space.fixed["data"]
    return _kept(rows, able)


def _pipelines(space: Space, rows: Layouts) -> Layouts:
    """Chunks of layers that a stage holds."""
    layers = space.model.layers
    every = space.choices("interleave", range(1, (layers + 2) // 2 + 1))
    found = []
    for stages in np.unique(rows["pipeline"]).tolist():
        # Without a pipeline layers lie in one piece.
        able = [v for v in every if (v == 1 or stages > 1) and lays_out(layers, stages, v)]
        found.append(_crossed(rows[rows["pipeline"] == stages], "interleave", able))
    return np.concatenate(found)


def _micro_batches(space: Space, rows: Layouts) -> Layouts:
    """Rows of a micro-batch, and so how many a replica has of them."""
    rows = _crossed(rows, "rows", space.choices("rows", divisors(space.batch)))
    each = space.batch // (rows["data"] * rows["expert"])
    rows["micro_batches"] = each // rows["rows"]
    able = (each % rows["rows"] == 0) & (rows["rows"] <= each)
    able &= (rows["interleave"] == 1) | (rows["micro_batches"] % rows["pipeline"] == 0)
    if "micro_batches" in space.fixed:
        able &= rows["micro_batches"] == space.fixed["micro_batches"]
    routed = rows["rows"] * rows["tokens"] // rows["context"] * space.model.top_k
    return _kept(rows, able & (routed % rows["expert"] == 0))


def _schedules(space: Space, rows: Layouts) -> Layouts:
    """The order in which stages run micro-batches; without a pipeline there is one."""
    every = [n for n in range(len(SCHEDULES)) if n != GPIPE]
    rows = _crossed(rows, "schedule", space.choices("schedule", every))
    several = rows["interleave"] > 1
    piped = (rows["schedule"] == INTERLEAVED) == several
    if "schedule" not in space.fixed:
        return _kept(rows, np.where(rows["pipeline"] > 1, piped, rows["schedule"] == PLAIN))
    if space.fixed["schedule"] == "1f1b":  # of several chunks it is interleaved
        rows["schedule"] = np.where(several, INTERLEAVED, PLAIN)
        return rows
    return _kept(rows, piped & (rows["pipeline"] > 1))


def _savings(space: Space, rows: Layouts) -> Layouts:
    """What saves memory at the cost of time, and the precisions."""
    rows = _crossed(rows, "zero", space.choices("zero", _ZERO))
    alone = rows["data"] * rows["context"] == 1
    fixed = "zero" in space.fixed
    rows = rows[~(alone & (rows["zero"] > 0)) | fixed]
    if not space.shards_in_pipelines:
        # Sharded gradients would be reduced anew for each of a pipeline's many micro-batches.
        rows = rows[(rows["pipeline"] == 1) | (rows["zero"] < 2)]
    rows = _crossed(rows, "sequence_parallel", space.choices("sequence_parallel", (0, 1)))
    held = rows["tokens"] // rows["context"]
    able = ~rows["sequence_parallel"] | ((rows["tensor"] > 1) & (held % rows["tensor"] == 0))
    rows = _crossed(rows[able], "recompute", space.choices("recompute", range(len(RECOMPUTES))))
    return _crossed(rows, "precision", [PRECISIONS.index(one) for one in space.precisions])


def _check_fixed(space: Space) -> None:
    """Raise UsageError for the first fixed value that no layout has, with the nearest that do."""
    model, fixed = space.model, space.fixed
    for what, count in model.split.items() if "tensor" in fixed else ():
        check_divides("tensor ranks", fixed["tensor"], what, count, model.name)
    check_pieces(fixed.get("pipeline", 1), 1, model.layers, model.name)
    if "pipeline" in fixed and "interleave" in fixed:
        check_pieces(fixed["pipeline"], fixed["interleave"], model.layers, model.name)
    if (experts := fixed.get("expert", 1)) > 1:
        check_divides("expert ranks", experts, "experts", model.experts, model.name)
    if (context := fixed.get("context", 1)) > 1 and space.tokens % (2 * context):
        able = [1, *divisors(space.tokens // 2)] if not space.tokens % 2 else [1]
        raise UsageError(
            f"{context} context ranks take two chunks each of a row, and its {space.tokens:,} "
            f"tokens do not divide so: the nearest that do are {nearest(context, able)}"
        )
    if fixed.get("schedule", "1f1b") not in SCHEDULES:
        raise UsageError(
            f"there is no pipeline schedule {fixed['schedule']!r}: choose {', '.join(SCHEDULES)}"
        )
    _check_ranks(space)


def _check_ranks(space: Space) -> None:
    """Raise UsageError where fixed axes do not divide the ranks, or replicas the batch."""
    given = {name: int(space.fixed[name]) for name in _AXES if name in space.fixed}
    used = int(np.prod(list(given.values()) or [1]))
    said = " × ".join(f"{name} {count}" for name, count in given.items())
    if space.ranks % used or (len(given) == len(_AXES) and used != space.ranks):
        below = space.ranks // used * used
        able = [n for n in (below, below + used) if 0 < n != space.ranks] or [used]
        raise UsageError(
            f"{said} are {used} ranks, which do not divide the {space.ranks}: the nearest --gpus "
            f"that go are {' and '.join(map(str, able))}"
        )
    replicas = given.get("data", 1) * given.get("expert", 1)
    rows = replicas * space.fixed.get("rows", 1) * space.fixed.get("micro_batches", 1)
    if space.batch % rows:
        raise UsageError(
            f"a batch of {space.batch} rows does not divide among {replicas} replicas of "
            f"{rows // replicas} rows each: the nearest --batch that does is "
            f"{max(1, round(space.batch / rows)) * rows}"
        )


def _nothing(space: Space, where: str) -> str:
    """That no layout is left, and what to leave out."""
    if not space.fixed:
        return (
            f"no layout of {space.model.name} divides a batch of {space.batch} rows among "
            f"{space.ranks} ranks: give --batch a multiple of {space.ranks}, or other --gpus"
        )
    said = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in space.fixed.items())
    what = {
        "_meshes": f"on {space.ranks} ranks with a batch of {space.batch} rows",
        "_pipelines": f"in a pipeline of its {space.model.layers} layers",
        "_micro_batches": f"with a batch of {space.batch} rows on {space.ranks} ranks",
        "_schedules": "whose pipeline has such a schedule",
        "_savings": "that shards or computes anew in such a way",
    }[where]
    return f"there is no layout of {space.model.name} {what} and {said}: leave one of them out"
