"""Hybrid parallelism: a step of a transformer on tensor × context × expert × data × pipeline ranks.

As Megatron-LM runs it: Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
Clusters Using Megatron-LM" (arXiv 2104.04473). The ranks of one pipeline stage do the same work:
they are a class.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from steptime.errors import UsageError
from steptime.program import Program
from steptime.workloads.context import check_context
from steptime.workloads.divide import (
    check_at_least_1,
    check_divides,
    check_pieces,
    layers_of_pieces,
)
from steptime.workloads.experts import check_experts
from steptime.workloads.mesh import Mesh
from steptime.workloads.model_memory import Memory, memory_of_stage
from steptime.workloads.models import Transformer, Unit
from steptime.workloads.pipelines import Pipeline
from steptime.workloads.pipelines import pipeline as pipeline_of
from steptime.workloads.pools import Gradients, Table
from steptime.workloads.precision import element_bytes
from steptime.workloads.segment import Cut, Recompute
from steptime.workloads.stage import Stage, stage_ops
from steptime.workloads.sync import Sync, strategies_of_many_axes, sync_named
from steptime.workloads.tensor import laid_out

BUCKET_BYTES = 25 << 20


def hybrid(
    model: Transformer,
    *,
    tensor: int = 1,
    context: int = 1,
    expert: int = 1,
    data: int = 1,
    pipeline: int = 1,
    **how: Any,
) -> Program:
    """The program of a ``Hybrid`` on a mesh of so many ranks along each axis."""
    mesh = Mesh(tensor=tensor, context=context, expert=expert, data=data, pipeline=pipeline)
    return Hybrid(model, mesh=mesh, **how).program


@dataclass(frozen=True)
class Hybrid:
    """One step of a transformer on the ranks of a ``mesh``.

    Each of data × expert replicas runs ``micro_batches`` micro-batches of ``rows`` rows of
    ``tokens`` tokens, by default the model's, through its stages in the order of the pipeline
    ``schedule``, which has a name of ``schedule_names``. With ``interleave`` v each stage holds v
    chunks of layers, and micro-batches pass from the last stage to the first as often as there are
    chunks to go. Activations and their gradients travel between stages while others are computed.
    What ranks along the other axes send is told in ``tensor``, ``context`` and ``experts``.

    At the end gradients are reduced among those that hold the same parameters, the stages at both
    ends add up those of the tied table, and parameters are shared as ``strategy`` says, in buckets
    of ``bucket_bytes`` where it overlaps. ``recompute``: what backward computes anew, ``none``,
    ``selective`` or ``full``. ``layers``: of each piece of the pipeline in its order; by default as
    many each, as ``layers_of_pieces`` cuts them.

    Raises UsageError where the stages or their chunks do not divide the layers, with or without the
    embedding and the head, the tensor ranks
    the heads or the width of the MLP, the context ranks the rows or the expert ranks the experts, a
    number is below 1, the schedule does not serve these numbers, gradients or parameters are
    sharded in a pipeline, or there is no such schedule, strategy or dtype here.
    """

    model: Transformer
    _: KW_ONLY
    mesh: Mesh
    micro_batches: int
    schedule: str = "1f1b"
    interleave: int = 1
    rows: int = 1
    tokens: int | None = None
    dtype: str = "bf16"
    products: str | None = None
    reduce_dtype: str = "fp32"
    strategy: str = "replicated"
    bucket_bytes: int = BUCKET_BYTES
    clip: bool = True
    sequence_parallel: bool = False
    recompute: Recompute = "none"
    layers: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        model, mesh = self.model, self.mesh
        self._check_sync()
        counts = {"micro-batches": self.micro_batches, "rows": self.rows}
        check_at_least_1((counts | {"bytes of a bucket": self.bucket_bytes}).items())
        if self.layers is None:
            check_pieces(mesh.pipeline, self.interleave, model.layers, model.name)
        for what, count in model.split.items():
            check_divides("tensor ranks", mesh.tensor, what, count, model.name)
        check_context(mesh.context, self.cut.row, model.name)
        if self.sequence_parallel:
            tokens = self.cut.row // mesh.context
            check_divides("tensor ranks", mesh.tensor, "tokens of a row", tokens, model.name)
        check_experts(self.cut, model)
        for dtype in (self.dtype, self.reduce_dtype):
            element_bytes(dtype)
        _ = self.order

    def _check_sync(self) -> None:
        sync = self.sync
        if not sync.symmetric:
            raise UsageError(
                f"hybrid parallelism has no strategy {self.strategy!r}: choose "
                f"{', '.join((*strategies_of_many_axes(), 'zero2'))} or zero3"
            )
        stages = self.mesh.pipeline
        if sync.zero > 1 and stages > 1:
            raise UsageError(
                f"{self.strategy} does not go with {stages} pipeline stages, for it would reduce "
                "gradients or gather parameters anew for each of their many micro-batches, which "
                "DeepSpeed and Megatron-LM refuse too: choose sharded (ZeRO stage 1), or 1 stage"
            )

    @cached_property
    def cut(self) -> Cut:
        """How a micro-batch and the layers are cut."""
        model = self.model
        return Cut(
            mesh=self.mesh,
            rows=self.rows,
            row=model.row(self.tokens),
            hidden=model.hidden,
            kv_width=model.kv_width,
            experts=model.experts,
            top_k=model.top_k,
            dtype=self.dtype,
            products=self.products,
            sequence_parallel=self.sequence_parallel and self.mesh.tensor > 1,
        )

    @cached_property
    def order(self) -> Pipeline:
        """The order of every stage's passes."""
        return pipeline_of(
            self.schedule,
            stages=self.mesh.pipeline,
            micro_batches=self.micro_batches,
            chunks=self.interleave,
        )

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The stages of its pipeline, in forward order."""
        model = self._laid_out
        shape = self.order.shape
        layers = self.layers or layers_of_pieces(model.layers, shape.pieces)
        pieces = _cut(model, layers, copied=self._apart)
        chunks = [
            tuple(pieces[shape.piece(number, chunk)] for chunk in range(shape.chunks))
            for number in range(shape.stages)
        ]
        return tuple(
            Stage(
                number=number,
                order=self.order,
                chunks=chunks[number],
                cut=self.cut,
                gradients=self._gradients(model, number, chunks[number]),
                recompute=self.recompute,
            )
            for number in range(self.mesh.pipeline)
        )

    def _gradients(
        self, model: Transformer, stage: int, chunks: tuple[tuple[Unit, ...], ...]
    ) -> Gradients:
        tied, table = model.architecture.tied, None
        if tied and self._apart and stage in (0, self.mesh.pipeline - 1):
            table = Table(model.units[0].tensors[0].name, by=1 if stage else -1)
        return Gradients(
            mesh=self.mesh,
            units=tuple(unit for chunk in chunks for unit in chunk),
            sync=self.sync,
            dtype=self.dtype,
            reduce_dtype=self.reduce_dtype,
            bucket_elements=max(1, self.bucket_bytes // element_bytes(self.reduce_dtype)),
            clip=self.clip,
            tied=tied and stage == 0 and not self._apart,
            table=table,
            sequence_parallel=self.cut.sequence_parallel,
        )

    @property
    def _apart(self) -> bool:
        """Whether the embedding and the head are on different stages."""
        return self.mesh.pipeline > 1 and not self.order.shape.folded

    @property
    def sync(self) -> Sync:
        """The calls of its strategy."""
        return sync_named(self.strategy)

    @cached_property
    def program(self) -> Program:
        """What each rank computes and sends."""
        class_of = np.arange(self.mesh.ranks, dtype=np.int32) // (
            self.mesh.ranks // self.mesh.pipeline
        )
        return Program(
            name=f"{self.model.name} {self.mesh}",
            axes=self.mesh.axes,
            lists=tuple(map(stage_ops, self.stages)),
            class_of=class_of,
        )

    @cached_property
    def memory(self) -> tuple[Memory, ...]:
        """What a rank of each stage keeps in memory."""
        return tuple(memory_of_stage(self._laid_out, stage) for stage in self.stages)

    @cached_property
    def _laid_out(self) -> Transformer:
        """The model with a vocabulary that its tensor ranks divide."""
        return laid_out(self.model, self.mesh.tensor)


def _cut(
    model: Transformer, layers: Sequence[int], *, copied: bool
) -> tuple[tuple[Unit, ...], ...]:
    """The units of pieces of so many ``layers``, the embedding in the first, the head in the last.

    ``copied``: the last stage holds a copy of a tied table.
    """
    embedding, *blocks, head = model.units
    if copied and model.architecture.tied:
        table = embedding.tensors[0]
        first, *others = head.parts
        first = replace(first, tensors=(table, *first.tensors), borrowed=())
        head = replace(head, parts=(first, *others))
    ends = [0, *accumulate(layers)]
    cuts = [tuple(blocks[start:end]) for start, end in pairwise(ends)]
    cuts[0] = (embedding, *cuts[0])
    cuts[-1] = (*cuts[-1], head)
    return tuple(cuts)
