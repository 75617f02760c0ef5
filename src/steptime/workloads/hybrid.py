"""Hybrid parallelism: a step of a transformer in tensor × data × pipeline, as Megatron-LM runs it.

Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM"
(arXiv 2104.04473). The ranks of one pipeline stage do the same work: they are a class.
"""

from dataclasses import replace

import numpy as np

from steptime.errors import UsageError
from steptime.program import Program
from steptime.workloads.models import Part, Transformer
from steptime.workloads.pipelines import pipeline as pipeline_of
from steptime.workloads.stage import DATA, PIPELINE, TENSOR, Stage, stage_ops
from steptime.workloads.sync import Sync, sync_named


def hybrid(
    model: Transformer,
    *,
    tensor: int = 1,
    data: int = 1,
    pipeline: int = 1,
    micro_batches: int,
    schedule: str = "1f1b",
    interleave: int = 1,
    rows: int = 1,
    context: int | None = None,
    dtype: str = "bf16",
    reduce_dtype: str = "fp32",
    strategy: str = "replicated",
    clip: bool = True,
) -> Program:
    """One step on tensor × data × pipeline ranks, of which the tensor axis varies fastest.

    Each of the ``data`` replicas runs ``micro_batches`` micro-batches of ``rows`` rows of
    ``context`` tokens through its stages in the order of the pipeline ``schedule``, which has a
    name of ``schedule_names``. With ``interleave`` v each stage holds v chunks of layers, and
    micro-batches pass from the last stage to the first as often as there are chunks to go. Tensor
    parallelism sums activations after each half of a block, forward and backward, and around the
    split vocabulary. Activations and their gradients travel between stages while others are
    computed. At the end the stages at both ends add up the gradients of the tied table, gradients
    are reduced among the replicas and parameters shared as ``strategy`` says: ``replicated`` or
    ``sharded``. Nothing is recomputed in backward.

    Raises UsageError where the stages or their chunks do not divide the layers or the tensor ranks
    the heads or the width of the MLP, a number is below 1, the schedule does not serve these
    numbers, or there is no such schedule, strategy or dtype here.
    """
    sync = _checked_sync(strategy)
    sizes = {TENSOR: tensor, DATA: data, PIPELINE: pipeline}
    for name, value in (sizes | {"micro-batches": micro_batches, "rows": rows}).items():
        if value < 1:
            raise UsageError(f"the number of {name} is {value}: it must be at least 1")
    _check_divides("pipeline stages", pipeline, "layers", model.layers, model.name)
    if interleave > 1:
        each = model.layers // pipeline
        _check_divides("chunks a stage", interleave, "layers of a stage", each, model.name)
    split = {"heads": model.heads, "key heads": model.kv_heads, "inner columns": model.inner}
    for what, count in split.items():
        _check_divides("tensor ranks", tensor, what, count, model.name)
    order = pipeline_of(schedule, stages=pipeline, micro_batches=micro_batches, chunks=interleave)
    laid_out = model.padded(128 * tensor)
    row = model.row(context)
    shares_table = pipeline > 1 and model.architecture.tied
    pieces = _cut(laid_out, order.shape.pieces)
    stages = [
        Stage(
            number=number,
            order=order,
            chunks=tuple(pieces[number::pipeline]),
            table=laid_out.vocabulary * laid_out.hidden // tensor if shares_table else 0,
            tensor=tensor,
            data=data,
            pipeline=pipeline,
            tokens=rows * row,
            row=row,
            hidden=model.hidden,
            dtype=dtype,
            reduce_dtype=reduce_dtype,
            sync=sync,
            clip=clip,
        )
        for number in range(pipeline)
    ]
    class_of = np.repeat(np.arange(pipeline, dtype=np.int32), tensor * data)
    shape = " × ".join(f"{axis} {size}" for axis, size in sizes.items())
    return Program(
        name=f"{model.name} {shape}",
        axes=sizes,
        lists=tuple(map(stage_ops, stages)),
        class_of=class_of,
    )


def _checked_sync(strategy: str) -> Sync:
    sync = sync_named(strategy)
    if strategy not in ("replicated", "sharded"):
        raise UsageError(
            f"hybrid parallelism has no strategy {strategy!r}: choose replicated or sharded"
        )
    return sync


def _check_divides(what: str, count: int, of: str, total: int, model: str) -> None:
    if total % count:
        able = [n for n in range(1, total + 1) if not total % n]
        below = max(n for n in able if n < count) if count > 1 else 1
        above = min((n for n in able if n > count), default=total)
        nearest = " and ".join(str(n) for n in sorted({below, above}))
        raise UsageError(
            f"{count} {what} do not divide the {total} {of} of {model}: the nearest that do are "
            f"{nearest}"
        )


def _cut(model: Transformer, pieces: int) -> list[tuple[Part, ...]]:
    """The parts of each piece: as many blocks in all, embedding and head in the first and last."""
    embedding, *blocks, head = (unit.parts for unit in model.units)
    if pieces > 1 and model.architecture.tied:  # the last stage holds a copy of the tied table
        table = model.units[0].tensors[0]
        head = tuple(replace(part, tensors=(table, *part.tensors)) for part in head)
    each = model.layers // pieces
    cuts = [
        tuple(part for block in blocks[start : start + each] for part in block)
        for start in range(0, model.layers, each)
    ]
    cuts[0] = embedding + cuts[0]
    cuts[-1] = cuts[-1] + head
    return cuts
