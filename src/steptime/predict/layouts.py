"""Layouts: many ways to run a step of one model, as rows of an array."""

from collections.abc import Sequence
from typing import Any, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Flags
from steptime.workloads.pipelines import schedule_named, schedule_names
from steptime.workloads.spec import Precision, Recompute, StepSpec

LAYOUT = np.dtype(
    [
        ("tensor", np.int64),
        ("context", np.int64),
        ("expert", np.int64),
        ("data", np.int64),
        ("pipeline", np.int64),
        ("interleave", np.int64),
        ("micro_batches", np.int64),
        ("rows", np.int64),
        ("tokens", np.int64),
        ("zero", np.int64),
        ("sequence_parallel", np.bool_),
        ("schedule", np.int64),
        ("recompute", np.int64),
        ("precision", np.int64),
    ]
)
"""A way to run a step: ranks along each axis, chunks a stage, micro-batches of each replica, rows
of a micro-batch, tokens of a row, ZeRO's stage; schedule, recompute and precision by their places
in SCHEDULES, RECOMPUTES and PRECISIONS."""

Layouts: TypeAlias = NDArray[Any]
"""Rows of dtype LAYOUT, shape (layouts,)."""

SCHEDULES = tuple(name for name in schedule_names() if not schedule_named(name).folded)
RECOMPUTES = get_args(Recompute)
PRECISIONS = get_args(Precision)

_AXES = ("tensor", "context", "expert", "data", "pipeline")
_COUNTS = (*_AXES, "interleave", "micro_batches", "rows", "tokens")


def layouts_of(specs: Sequence[StepSpec]) -> Layouts:
    """The layouts of specifications whose defaults are filled in, as ``resolved`` does."""
    rows = np.zeros(len(specs), LAYOUT)
    for name in _COUNTS:
        rows[name] = [getattr(spec, name) or 1 for spec in specs]
    rows["zero"] = [spec.zero or 0 for spec in specs]
    rows["sequence_parallel"] = [spec.sequence_parallel for spec in specs]
    rows["schedule"] = [_schedule(spec) for spec in specs]
    rows["recompute"] = [RECOMPUTES.index(spec.recompute) for spec in specs]
    rows["precision"] = [PRECISIONS.index(spec.precision or "bf16") for spec in specs]
    return rows


def _schedule(spec: StepSpec) -> int:
    """The place of its schedule; one of which no closed form is known counts as 1f1b."""
    name = spec.schedule if spec.schedule in SCHEDULES else "1f1b"
    return SCHEDULES.index(name or "1f1b")


def spec_of(model: str, layout: np.void) -> StepSpec:
    """The specification of one layout of a model by its name or file."""
    one = {name: int(layout[name]) for name in _COUNTS}
    piped = one["pipeline"] > 1
    named: dict[str, Any] = {
        name: one[name] for name in (*_AXES, "micro_batches", "rows", "tokens")
    }
    return StepSpec(
        model=model,
        ranks=int(ranks_of(layout)),
        batch=one["rows"] * one["micro_batches"] * one["data"] * one["expert"],
        **named,
        interleave=one["interleave"] if piped else None,
        schedule=SCHEDULES[int(layout["schedule"])] if piped else None,
        zero=int(layout["zero"]),
        sequence_parallel=bool(layout["sequence_parallel"]) and one["tensor"] > 1,
        recompute=cast("Recompute", RECOMPUTES[int(layout["recompute"])]),
        precision=cast("Precision", PRECISIONS[int(layout["precision"])]),
    )


def ranks_of(layouts: Layouts | np.void) -> NDArray[np.int64]:
    """Ranks in all of each layout, shape (layouts,)."""
    return np.asarray(np.prod([layouts[axis] for axis in _AXES], axis=0))


def tokens_of(layouts: Layouts) -> NDArray[np.int64]:
    """Tokens of the global batch of each layout, shape (layouts,)."""
    replicas = layouts["data"] * layouts["expert"]
    return np.asarray(layouts["tokens"] * layouts["rows"] * layouts["micro_batches"] * replicas)


def gathers_once(layouts: Layouts) -> Flags:
    """Whether sharded parameters, once gathered, stay so until the step ends: within pipelines.

    Each micro-batch would gather them anew otherwise. Their gradients are summed unsharded as long
    (torchtitan; FSDP2 under torch.distributed.pipelining).
    """
    return np.asarray((layouts["zero"] >= 3) & (layouts["pipeline"] > 1))
