"""Expressing: a measured row as a model, a layout and a machine, or the reason why it cannot be."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from steptime.plan.recipes import Recipe, recipe_of
from steptime.plan.row_machines import machine_for
from steptime.plan.row_models import model_of
from steptime.plan.rows import Row
from steptime.predict.layouts import LAYOUT, PRECISIONS, RECOMPUTES, SCHEDULES, Layouts
from steptime.predict.machine import Machine
from steptime.workloads.models import Transformer

_MOST_OF_PEAK = 2.0
"""MFU counts all of attention, of which causal kernels compute half."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """A row that can be predicted.

    ``number``: of the row in its file, from 0. ``layouts``: the ways in which it may have run,
    shape (ways,), of which the fastest counts: one, but where whoever measured it tuned what they
    do not print. ``assumed``: what the row leaves unstated, and what is taken in its place.
    """

    number: int
    row: Row
    model: Transformer
    layouts: Layouts
    machine: Machine
    assumed: tuple[str, ...]

    @property
    def tokens(self) -> int:
        """Tokens of the global batch."""
        return (self.row.global_batch or 0) * (self.row.seq or 0)


@dataclass(frozen=True)
class Unexpressed:
    """A row that cannot be predicted, and why."""

    number: int
    row: Row
    why: str


def expressed(rows: Sequence[Row]) -> list[Case | Unexpressed]:
    """Every row, in order, as a case or with the reason why it is none."""
    found: list[Case | Unexpressed] = []
    for number, row in enumerate(rows):
        case = expressed_row(row, number)
        found.append(Unexpressed(number, row, case) if isinstance(case, str) else case)
    return found


def expressed_row(row: Row, number: int = 0) -> Case | str:
    """The case of a row, or why there is none."""
    recipe = recipe_of(row.source)
    machine = machine_for(row.gpu, recipe, f"{row.model} {row.precision} {row.note}")
    if isinstance(machine, str):
        return machine
    model = model_of(row, recipe)
    if isinstance(model, str):
        return model
    assumed: list[str] = []
    layouts = _layouts(row, recipe, model, machine, assumed)
    if isinstance(layouts, str):
        return layouts
    case = Case(
        number=number,
        row=row,
        model=model,
        layouts=layouts,
        machine=machine,
        assumed=(*assumed, *_as_given(row)),
    )
    return _beyond_peak(case) or case


def _as_given(row: Row) -> list[str]:
    """What whoever wrote the row assumed, in words."""
    return [f"{', '.join(row.assumed)} as the source assumes"] if row.assumed else []


def _beyond_peak(case: Case) -> str:
    """Why the time of a row cannot be, where it would take more than the peak; else nothing."""
    row = case.row
    if not (row.step_s and row.n_gpus):
        return ""
    peak = case.machine.device.flops[PRECISIONS[int(case.layouts["precision"][0])]] * row.n_gpus
    share = case.model.flops_per_token(row.seq) * case.tokens / (row.step_s * peak)
    if share <= _MOST_OF_PEAK:
        return ""
    return f"its step time would be {100 * share:,.0f} % of the peak: check step_s and global_batch"


def _layouts(
    row: Row, recipe: Recipe, model: Transformer, machine: Machine, assumed: list[str]
) -> Layouts | str:
    axes = _axes(row)
    if isinstance(axes, str):
        return axes
    precision = _precision(row.precision or recipe.precision)
    if precision not in PRECISIONS:
        return f"steps in {precision} are not predicted"
    if precision not in machine.device.flops:
        return f"{machine.device.name} has no rate for {precision}"
    micro = _micro_batches(row, recipe, axes["data"] * axes["expert"], assumed)
    if isinstance(micro, str):
        return micro
    parallel = _sequence_parallel(row, recipe) and axes["tensor"] > 1
    fixed = axes | {
        "tokens": row.seq,
        "zero": _zero(row.zero_fsdp, recipe.zero, assumed),
        "sequence_parallel": parallel,
        "recompute": RECOMPUTES.index(_recompute(row.recompute, recipe, assumed)),
        "precision": PRECISIONS.index(precision),
    }
    ways = product(micro, _interleaves(row, recipe, axes["pipeline"], model.layers, assumed))
    made = np.zeros(0, LAYOUT)
    for (rows, count), chunks in ways:
        one = np.zeros(1, LAYOUT)
        for name, value in fixed.items():
            one[name] = value
        one["rows"], one["micro_batches"], one["interleave"] = rows, count, chunks
        schedule = "interleaved" if chunks > 1 else recipe.schedule
        one["schedule"] = SCHEDULES.index(schedule)
        made = np.concatenate([made, one])
    return made


def _axes(row: Row) -> dict[str, int] | str:
    """Ranks along each axis; the data axis is what the others leave where it is unstated."""
    if not row.n_gpus:
        return "the number of GPUs is unstated"
    tensor, pipeline, context = row.tp or 1, row.pp or 1, row.cp or 1
    model = tensor * pipeline * context
    data = row.dp or row.n_gpus // model
    if model * data != row.n_gpus:
        return (
            f"{tensor} tensor × {pipeline} pipeline × {context} context × {data} data ranks are "
            f"not its {row.n_gpus} GPUs"
        )
    expert = row.ep or 1
    if data * context % expert or (data % expert and expert > 1):
        return f"{expert} expert ranks do not divide its {data} data ranks"
    return {
        "tensor": tensor,
        "pipeline": pipeline,
        "context": context,
        "data": data // expert,
        "expert": expert,
    }


def _micro_batches(
    row: Row, recipe: Recipe, replicas: int, assumed: list[str]
) -> list[tuple[int, int]] | str:
    """Rows of a micro-batch with their number on each replica; several where that is unstated."""
    if not row.global_batch:
        return "the global batch is unstated"
    if row.global_batch % replicas:
        return f"{replicas} replicas do not divide its {row.global_batch} sequences"
    each = row.global_batch // replicas
    if row.micro_batch:
        if each % row.micro_batch:
            return f"micro-batches of {row.micro_batch} do not divide the {each} of each replica"
        return [(row.micro_batch, each // row.micro_batch)]
    sizes = [size for size in recipe.micro_batches if each % size == 0] or [1]
    assumed.append(f"micro-batches of {' or '.join(map(str, sizes))}")
    return [(size, each // size) for size in sizes]


def _interleaves(
    row: Row, recipe: Recipe, stages: int, layers: int, assumed: list[str]
) -> list[int]:
    if row.vpp or stages == 1:
        return [row.vpp or 1] if stages > 1 else [1]
    chunks = [one for one in recipe.interleaves if one == 1 or layers >= (one - 1) * stages]
    fitting = [one for one in chunks if layers % (one * stages) == 0] or chunks[:1] or [1]
    assumed.append(f"chunks a stage: {' or '.join(map(str, fitting))}")
    return fitting


def _sequence_parallel(row: Row, recipe: Recipe) -> bool:
    stated = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
    return stated.get(row.sp.casefold(), recipe.sequence_parallel)


def _zero(text: str, usual: int, assumed: list[str]) -> int:
    """The stage of ZeRO that a text means."""
    name = text.casefold()
    if not name:
        assumed.append(f"ZeRO-{usual}")
        return usual
    found = re.search(r"(?:zero|stage)\D*([0-3])|^([0-3])$", name)
    if found:
        return int(found[1] or found[2])
    kinds = {
        0: r"no_shard|^no|ddp|false",
        2: r"no reshard|grad_op|hybrid_shard_zero2",
        3: r"full_shard|fsdp|hybrid|hsdp",
        1: r"dist|optim|true|yes",
    }
    stage = next((stage for stage, words in kinds.items() if re.search(words, name)), None)
    if stage == 0 and "no reshard" in name:
        stage = 2
    if stage is None:
        assumed.append(f"ZeRO-{usual} for {text!r}")
    return usual if stage is None else stage


def _recompute(text: str, recipe: Recipe, assumed: list[str]) -> str:
    """Which recomputation a text means."""
    name = text.casefold()
    if name in ("", "?", "null", "unstated"):
        assumed.append(f"recompute: {recipe.recompute}")
        return recipe.recompute
    kinds = {
        "selective": r"selective|per-op|\bsac\b|core|mla|mlp|moe|norm",
        "full": r"full|uniform|block|checkpoint|true|yes|all|^\d*[1-9]\d*$",
        "none": r"none|^no\b|off|false|^0$",
    }
    kind = next((kind for kind, words in kinds.items() if re.search(words, name)), None)
    if kind is None:
        assumed.append(f"recompute: {recipe.recompute} for {text!r}")
    return kind or recipe.recompute


def _precision(text: str) -> str:
    """The dtype of matrix products that a text means, by the narrowest that it names."""
    name = text.casefold()
    kinds = {
        "fp4": r"fp4|float4",
        "fp8": r"fp8|float8|f8",
        "bf16": r"bf16|bfloat16",
        "fp16": r"fp16|float16|half",
        "tf32": r"tf32",
        "fp32": r"fp32|float32|single",
    }
    return next((kind for kind, words in kinds.items() if re.search(words, name)), name)
