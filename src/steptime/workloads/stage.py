"""Stage: the ops of the ranks of one pipeline stage in a step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from steptime.program import Collective, Compute, Op, Recv, Send
from steptime.program.program import After
from steptime.workloads.context import attention
from steptime.workloads.experts import mixture
from steptime.workloads.gradient import Summing
from steptime.workloads.listing import add
from steptime.workloads.mesh import PIPELINE
from steptime.workloads.models import Unit
from steptime.workloads.pipelines import Kind, Pass, Pipeline
from steptime.workloads.pools import Gradients
from steptime.workloads.precision import element_bytes
from steptime.workloads.segment import Cut, Recompute, Segment
from steptime.workloads.tensor import summed

_TAGS = {"forward": 0, "backward": 1}


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

    def unit(self, chunk: int, place: int) -> int:
        """The number, among all units of the stage, of the unit at a place of a chunk."""
        return sum(map(len, self.chunks[:chunk])) + place

    def recomputes(self, unit: Sequence[Segment]) -> bool:
        """Whether backward begins with this unit's forward: a block of which the input is kept."""
        return self.recompute == "full" and any(segment.part.attending for segment in unit)

    def ends(self, run: Pass) -> tuple[bool, bool]:
        """Whether a pass needs another stage's output, and whether another stage needs its own."""
        if run.kind == "backward weight":
            return False, False
        shape = self.order.shape
        piece = shape.piece(self.number, run.chunk)
        before, behind = piece > 0, piece < shape.pieces - 1
        return (before, behind) if run.forward else (behind, before)

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
    for run in stage.order.passes(stage.number):
        after = _pass(stage, ops, summing, run)
    summing.finish(after)
    return tuple(ops)


def _pass(stage: Stage, ops: list[Op], summing: Summing, run: Pass) -> After:
    """One micro-batch through a chunk of the stage: received, computed unit by unit, sent on.

    Every movement has a stream of its own: it waits for the data that it moves, and computing waits
    for the data that it needs, and for nothing else. Gradients of weights wait for no
    communication. Returns where the last unit is done.
    """
    receives, sends = stage.ends(run)
    direction = "forward" if run.forward else "backward"
    by, tag = (1 if run.forward else -1), _TAGS[direction]
    nbytes = stage.cut.activation_bytes(stage.cut.tokens_held)
    label = stage.label(run)
    after: After = ()
    if receives:
        what = f"receive {direction}"
        receive = Recv(
            name=f"{what} {label}", axis=PIPELINE, by=-by, nbytes=nbytes, tag=tag, stream=what
        )
        after = add(ops, receive)
    places = range(len(stage.chunks[run.chunk]))
    for place in places if run.forward else reversed(places):
        after = _unit(stage, ops, summing, run, place, after)
    if sends:
        what = f"send {direction}"
        send = Send(
            name=f"{what} {label}", axis=PIPELINE, by=by, nbytes=nbytes, tag=tag, stream=what
        )
        add(ops, replace(send, after=after))
    return after


def _unit(
    stage: Stage, ops: list[Op], summing: Summing, run: Pass, place: int, after: After
) -> After:
    """A micro-batch through one unit; returns where it is done."""
    unit, label = stage.unit(run.chunk, place), stage.label(run)
    own = stage.segments[run.chunk][place]
    if run.kind != "backward weight":
        after += summing.before(unit, forward=run.forward)
    if run.kind in ("backward", "backward input") and stage.recomputes(own):
        for segment in own:
            after, _ = _segment(stage, ops, segment, "forward", f"{label} again", after)
    computed = []
    for segment in own if run.forward else reversed(own):
        after, done = _segment(stage, ops, segment, run.kind, label, after)
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
    stage: Stage, ops: list[Op], segment: Segment, kind: Kind, label: str, after: After
) -> tuple[After, int]:
    """A segment with the collectives around it: where all is done, and where it was computed."""
    around: dict[Kind, tuple[Sequence[Collective], Sequence[Collective]]] = {
        "forward": (segment.enter, segment.leave),
        "backward": (segment.enter_backward, segment.leave_backward),
        "backward input": (segment.enter_backward, segment.leave_backward),
        "backward weight": ((), ()),
    }
    before, behind = around[kind]
    for call in before:
        after = add(ops, replace(call, name=f"{kind} {call.name}", after=after))
    after = add(ops, _compute(stage, segment, kind, label, after))
    done = len(ops) - 1
    for call in behind:
        after = add(ops, replace(call, name=f"{kind} {call.name}", after=after))
    return after, done


def _compute(stage: Stage, segment: Segment, kind: Kind, label: str, after: After) -> Compute:
    """The computing of a segment; backward is a gradient of its input and one of its weights."""
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
    return Compute(
        name=f"{kind} {label} {part.name}",
        flops=cut.tokens * flops / cut.mesh.tensor + cut.tokens * passes * 2.0 * twice * others,
        nbytes=passes * (read * element_bytes(cut.dtype)),
        dtype=cut.dtype,
        after=after,
    )
