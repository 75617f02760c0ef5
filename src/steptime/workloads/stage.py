"""Stage: the ops of the ranks of one pipeline stage in a step."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from steptime.program import PIPELINE, Collective, Compute, Op, Recv, Send
from steptime.program.program import After
from steptime.workloads.context import attention
from steptime.workloads.experts import mixture
from steptime.workloads.gradient import Summing
from steptime.workloads.listing import add, called
from steptime.workloads.models import Unit
from steptime.workloads.part_kernels import part_kernels
from steptime.workloads.pipelines import Kind, Pass, Pipeline
from steptime.workloads.pools import Gradients
from steptime.workloads.precision import element_bytes
from steptime.workloads.products import in_two_dtypes, products_dtype
from steptime.workloads.segment import Cut, Recompute, Segment
from steptime.workloads.tensor import summed

TAGS = {"forward": 0, "backward": 1}


class Ends(NamedTuple):
    """By how many stages what a pass needs is away, and by how many what it makes is to go.

    0 where another chunk of the same stage has or needs it, None where there is nothing.
    """

    source: int | None
    target: int | None


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One stage of a pipeline, and the options of a step.

    ``chunks``: the units of each of its pieces of the model, in forward order. ``cut``: how a
    micro-batch and the layers are divided among its ranks. ``gradients``: how these are summed.
    ``recompute``: what backward recomputes instead of keeping it: attention's scores (selective),
    or all of a block but its input (full), whose communication is then repeated too.
    """

    number: int
    order: Pipeline
    chunks: tuple[tuple[Unit, ...], ...]
    cut: Cut
    gradients: Gradients
    recompute: Recompute

    @cached_property
    def segments(self) -> tuple[tuple[tuple[Segment, ...], ...], ...]:
        """The segments of each unit of each chunk, in forward order."""
        return tuple(tuple(segments(self.cut, unit) for unit in chunk) for chunk in self.chunks)

    @cached_property
    def computed(self) -> dict[tuple[int, Kind], tuple[Compute, ...]]:
        """What computes each segment, by its id, in each kind of pass: filled in as asked for."""
        return {}

    @property
    def calls(self) -> Iterator[Collective]:
        """The collectives within forward and backward of a micro-batch."""
        for segment in (one for chunk in self.segments for unit in chunk for one in unit):
            yield from segment.enter
            yield from segment.leave
            yield from segment.enter_backward
            yield from segment.leave_backward

    def unit(self, chunk: int, place: int) -> int:
        """The number, among all units of the stage, of the unit at a place of a chunk."""
        return sum(map(len, self.chunks[:chunk])) + place

    def recomputes(self, unit: Sequence[Segment]) -> bool:
        """Whether backward begins with this unit's forward: a block of which the input is kept."""
        return self.recompute == "full" and any(segment.part.attending for segment in unit)

    def ends(self, run: Pass) -> "Ends":
        """Where what a pass needs comes from, and where what comes out goes."""
        if run.kind == "backward weight":
            return Ends(None, None)
        shape, piece = self.order.shape, self.piece(run)
        by = 1 if run.forward else -1
        source, target = (
            shape.way(piece, to) if 0 <= to < shape.pieces else None
            for to in (piece - by, piece + by)
        )
        return Ends(source, target)

    def piece(self, run: Pass) -> int:
        """The piece of the model that a pass computes."""
        return self.order.shape.piece(self.number, run.chunk)

    def label(self, run: Pass) -> str:
        """The micro-batch and, where a stage has several chunks, the chunk, in words."""
        return f"{run.micro_batch}" + f".{run.chunk}" * (len(self.chunks) > 1)


def segments(cut: Cut, unit: Unit) -> tuple[Segment, ...]:
    """The segments that the ranks of a stage compute of a unit, in forward order."""
    found: list[Segment] = []
    for part in unit.parts:
        if part.attending:
            found += summed(cut, attention(cut, part))
        else:
            found += mixture(cut, part)
    return tuple(found)


def stage_ops(stage: Stage) -> tuple[Op, ...]:
    """The ops of a step of each rank of a stage."""
    ops: list[Op] = []
    summing = Summing(stage.gradients, ops)
    after: After = ()
    handed: dict[tuple[bool, int, int], After] = {}
    for run in stage.order.passes(stage.number):
        piece = stage.piece(run), run.micro_batch
        after = _pass(stage, ops, summing, run, handed.pop((run.forward, *piece), ()))
        if stage.ends(run).target == 0:
            by = 1 if run.forward else -1
            handed[run.forward, piece[0] + by, piece[1]] = after
    summing.finish(after)
    return tuple(ops)


def _pass(stage: Stage, ops: list[Op], summing: Summing, run: Pass, after: After) -> After:
    """One micro-batch through a chunk of the stage: received, computed unit by unit, sent on.

    ``after``: where another chunk of the stage has ended, if it computes what this one needs.

    Every movement has a stream of its own: it waits for the data that it moves, and computing waits
    for the data that it needs, and for nothing else. Gradients of weights wait for no
    communication. Returns where the last unit is done.
    """
    source, target = stage.ends(run)
    direction = "forward" if run.forward else "backward"
    tag = TAGS[direction]
    nbytes = stage.cut.activation_bytes(stage.cut.tokens_held)
    label = stage.label(run)
    if source:
        what = f"receive {direction}"
        receive = Recv(
            name=f"{what} {label}", axis=PIPELINE, by=source, nbytes=nbytes, tag=tag, stream=what
        )
        after = add(ops, receive)
    places = range(len(stage.chunks[run.chunk]))
    for place in places if run.forward else reversed(places):
        after = _unit(stage, ops, summing, run, place, after)
    if target:
        what = f"send {direction}"
        send = Send(
            name=f"{what} {label}", axis=PIPELINE, by=target, nbytes=nbytes, tag=tag, stream=what
        )
        add(ops, replace(send, after=after))
    return after


def _unit(
    stage: Stage, ops: list[Op], summing: Summing, run: Pass, place: int, after: After
) -> After:
    """A micro-batch through one unit; returns where it is done."""
    unit, label = stage.unit(run.chunk, place), stage.label(run)
    own = stage.segments[run.chunk][place]
    dtype = products_dtype(stage.cut.products, stage.cut.dtype, (one.part for one in own))
    if run.kind != "backward weight":
        after += summing.before(unit, forward=run.forward)
    if run.kind in ("backward", "backward input") and stage.recomputes(own):
        for segment in own:
            after, _ = _segment(stage, ops, segment, "forward", f"{label} again", after, dtype)
    computed = []
    for segment in own if run.forward else reversed(own):
        after, done = _segment(stage, ops, segment, run.kind, label, after, dtype)
        computed.append(done)
    summing.computed(
        unit,
        computed[0],
        computed[-1],
        complete=run.releases,
        final=run.micro_batch == stage.order.shape.micro_batches - 1,
    )
    return after


def _segment(
    stage: Stage, ops: list[Op], segment: Segment, kind: Kind, label: str, after: After, dtype: str
) -> tuple[After, int]:
    """A segment with the collectives around it: where all is done, and where it was computed.

    ``dtype``: of its products.
    """
    around: dict[Kind, tuple[Sequence[Collective], Sequence[Collective]]] = {
        "forward": (segment.enter, segment.leave),
        "backward": (segment.enter_backward, segment.leave_backward),
        "backward input": (segment.enter_backward, segment.leave_backward),
        "backward weight": ((), ()),
    }
    before, behind = around[kind]
    for call in before:
        after = add(ops, called(call, f"{kind} {call.name}", after))
    key = id(segment), kind
    if key not in stage.computed:
        stage.computed[key] = _computes(stage, segment, kind, dtype)
    for one in stage.computed[key]:
        add(ops, called(one, f"{kind} {label} {one.name}", after))
        after = ()  # what else computes it comes next on the same stream
    done = len(ops) - 1
    after = (done,)
    for call in behind:
        after = add(ops, called(call, f"{kind} {call.name}", after))
    return after, done


def _computes(stage: Stage, segment: Segment, kind: Kind, dtype: str) -> tuple[Compute, ...]:
    """The computing of a segment; backward is a gradient of its input and one of its weights.

    Called after its part, whatever the micro-batch.
    """
    cut, part = stage.cut, segment.part
    forward, weights = part.forward_flops(cut.row), part.weight_flops
    again = part.score_flops(cut.row) if stage.recompute == "selective" else 0.0
    flops, passes = {
        "forward": (forward, 1),
        "backward": (2 * forward + again, 2),
        "backward input": (2 * forward + again - weights, 1),
        "backward weight": (weights, 1),
    }[kind]
    # What tensor ranks do not split each multiplies all tokens with or, in sequence parallelism,
    # its own.
    twice = 0 if cut.sequence_parallel else part.duplicated
    others = (cut.mesh.tensor - 1) / cut.mesh.tensor
    read = (part.multiplied - part.duplicated) // cut.mesh.tensor + part.duplicated
    op = Compute(
        name=part.name,
        flops=cut.tokens * flops / cut.mesh.tensor + cut.tokens * passes * 2.0 * twice * others,
        nbytes=passes * (read * element_bytes(cut.dtype)),
        dtype=cut.dtype,
        kernels=part_kernels(part, cut.share, kind, again=again > 0),
    )
    return in_two_dtypes(op, dtype, cut.tokens * (flops - passes * weights) / cut.mesh.tensor)
