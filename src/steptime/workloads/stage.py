"""What the ranks of one pipeline stage do in a step, op by op."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from steptime.program import Collective, Compute, Op, Recv, Send, Wait
from steptime.timeline import Phase
from steptime.workloads.models import Part
from steptime.workloads.pipelines import Kind, Pass, Pipeline
from steptime.workloads.precision import element_bytes, update_bytes
from steptime.workloads.sync import Sync

TENSOR, DATA, PIPELINE = "tensor", "data", "pipeline"
After: TypeAlias = tuple[int, ...]

_TAGS = {"forward": 0, "backward": 1, "table": 2}
_LOSS_REDUCES = 3  # greatest logit, sum of exponentials, logit of the target


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of a pipeline, and what a step asks of it.

    ``chunks``: the parts of each of its pieces of the model, in forward order. ``table``: elements
    of a rank's shard of the tied table where the first and the last stage hold one each, else 0.
    ``tokens`` are those of a micro-batch, ``row`` those of one row.
    """

    number: int
    order: Pipeline
    chunks: tuple[tuple[Part, ...], ...]
    table: int
    tensor: int
    data: int
    pipeline: int
    tokens: int
    row: int
    hidden: int
    dtype: str
    reduce_dtype: str
    sync: Sync
    clip: bool

    @property
    def is_first(self) -> bool:
        """Whether tokens enter here."""
        return self.number == 0

    @property
    def is_last(self) -> bool:
        """Whether the loss is computed here."""
        return self.number == self.pipeline - 1

    @property
    def parameters(self) -> int:
        """Elements that each of its ranks holds."""
        return sum(part.parameters_of_shard(self.tensor) for chunk in self.chunks for part in chunk)

    @property
    def activation_bytes(self) -> int:
        """Bytes of a micro-batch's activations between two layers."""
        return self.tokens * self.hidden * element_bytes(self.dtype)


def stage_ops(stage: Stage) -> tuple[Op, ...]:
    """The step of each rank of a stage."""
    ops: list[Op] = []
    after: After = ()
    for run in stage.order.passes(stage.number):
        after = _pass(stage, ops, run)
    _finish(stage, ops, after)
    return tuple(ops)


def _add(ops: list[Op], op: Op) -> After:
    """Append an op; its place, as ``after`` names it."""
    ops.append(op)
    return (len(ops) - 1,)


def _pass(stage: Stage, ops: list[Op], run: Pass) -> After:
    """One micro-batch through a chunk of the stage: received, computed part by part, sent on.

    Every movement has a stream of its own: it waits for what it moves, and computing waits for
    what it needs, and for nothing else. Gradients of weights need what their stage has already
    and nobody else needs them. Returns where the last part is done.
    """
    receives, sends = _ends(stage, run)
    direction = "forward" if run.forward else "backward"
    by, tag, nbytes = (1 if run.forward else -1), _TAGS[direction], stage.activation_bytes
    number = _number(stage, run)
    after: After = ()
    if receives:
        what = f"receive {direction}"
        receive = Recv(
            name=f"{what} {number}", axis=PIPELINE, by=-by, nbytes=nbytes, tag=tag, stream=what
        )
        after = _add(ops, receive)
    parts = stage.chunks[run.chunk]
    for part in parts if run.forward else reversed(parts):
        after = _add(ops, _compute(stage, part, run.kind, number, after))
        for reduce in _reduces(stage, part, run.kind):
            after = _add(ops, replace(reduce, after=after))
    if sends:
        what = f"send {direction}"
        send = Send(
            name=f"{what} {number}", axis=PIPELINE, by=by, nbytes=nbytes, tag=tag, stream=what
        )
        _add(ops, replace(send, after=after))
    return after


def _ends(stage: Stage, run: Pass) -> tuple[bool, bool]:
    """Whether a pass needs what another stage computed, and another stage what it computes."""
    if run.kind == "backward weight":
        return False, False
    shape = stage.order.shape
    piece = shape.piece(stage.number, run.chunk)
    before, behind = piece > 0, piece < shape.pieces - 1
    return (before, behind) if run.forward else (behind, before)


def _number(stage: Stage, run: Pass) -> str:
    """The micro-batch and, where a stage has several, the chunk."""
    return f"{run.micro_batch}" + f".{run.chunk}" * (len(stage.chunks) > 1)


def _compute(stage: Stage, part: Part, kind: Kind, number: str, after: After) -> Compute:
    """What a part computes; backward is a gradient of its input and one of its weights."""
    forward, weights = part.forward_flops(stage.row), part.weight_flops
    flops, passes = {
        "forward": (forward, 1),
        "backward": (2 * forward, 2),
        "backward input": (2 * forward - weights, 1),
        "backward weight": (weights, 1),
    }[kind]
    return Compute(
        name=f"{kind} {number} {part.name}",
        flops=stage.tokens * flops / stage.tensor,
        nbytes=passes * (part.multiplied // stage.tensor * element_bytes(stage.dtype)),
        dtype=stage.dtype,
        after=after,
    )


def _reduces(stage: Stage, part: Part, kind: Kind) -> Iterator[Collective]:
    """What tensor-parallel ranks sum after a part (arXiv 1909.08053, section 3)."""
    if stage.tensor == 1 or kind == "backward weight":
        return
    if part.name == "embedding" and kind != "forward":
        return
    calls, nbytes, dtype = 1, stage.activation_bytes, stage.dtype
    if part.name == "head" and kind == "forward":
        calls, nbytes, dtype = _LOSS_REDUCES, stage.tokens * element_bytes("fp32"), "fp32"
    for _ in range(calls):
        yield Collective(
            name=f"{kind} {part.name}",
            kind="all_reduce",
            group=(TENSOR,),
            nbytes=nbytes,
            dtype=dtype,
            stream=TENSOR,
        )


def _finish(stage: Stage, ops: list[Op], after: After) -> None:
    """Append what follows the last backward: gradients are summed, the update, its sharing."""
    after = _sum_tables(stage, ops, after)
    elements = -(-stage.parameters // stage.data) * stage.data
    if stage.data > 1:
        after = _add(ops, _among_replicas(stage.sync.reduce, elements, stage.reduce_dtype, after))
    owned = stage.sync.owned(elements, stage.data, is_root=False)
    if stage.clip:
        norm = owned * element_bytes(stage.reduce_dtype)
        after = _add(ops, Compute(name="norm", nbytes=norm, phase=Phase.UPDATE, after=after))
        group = (TENSOR, DATA, PIPELINE) if stage.sync.updates == "shard" else (TENSOR, PIPELINE)
        if stage.tensor * stage.data * stage.pipeline > 1:
            norm_of_all = Collective(
                name="norm", kind="all_reduce", group=group, nbytes=4, stream=DATA, after=after
            )
            after = _add(ops, norm_of_all)
    traffic = owned * update_bytes(stage.dtype)
    after = _add(ops, Compute(name="update", nbytes=traffic, phase=Phase.UPDATE, after=after))
    if stage.sync.share and stage.data > 1:
        after = _add(ops, _among_replicas(stage.sync.share, elements, stage.dtype, after))
        ops.append(Wait(name="parameters", after=after))


def _sum_tables(stage: Stage, ops: list[Op], after: After) -> After:
    """Let both ends of the pipeline add the gradient of the other's copy of the tied table."""
    if not stage.table or not (stage.is_first or stage.is_last):
        return after
    by, tag = (-1 if stage.is_first else 1), _TAGS["table"]
    nbytes = stage.table * element_bytes(stage.reduce_dtype)
    send = Send(
        name="send table", axis=PIPELINE, by=by, nbytes=nbytes, tag=tag, stream="send table"
    )
    receive = Recv(
        name="receive table", axis=PIPELINE, by=by, nbytes=nbytes, tag=tag, stream="receive table"
    )
    return _add(ops, replace(send, after=after)) + _add(ops, replace(receive, after=after))


def _among_replicas(kind: str, elements: int, dtype: str, after: After) -> Collective:
    return Collective(
        name=kind,
        kind=kind,
        group=(DATA,),
        nbytes=elements * element_bytes(dtype),
        dtype=dtype,
        stream=DATA,
        after=after,
    )
