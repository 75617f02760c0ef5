"""The step that GPT-2 and BERT share: a pipeline in GPipe order, then a sum for each layer.

Huang et al., "GPipe" (arXiv 1811.06965).
"""

from dataclasses import dataclass

import numpy as np

from steptime.arrays import Ints
from steptime.errors import UsageError
from steptime.program import PIPELINE, Op, Program
from steptime.workloads.compat.calls import Calls, collective, recv, send
from steptime.workloads.compat.original import check_multiple, check_stages

DATA = "data"
FIRST, MIDDLE, LAST = range(3)

DEFECTS = (
    "A middle stage sends a micro-batch on before it has received it, so stages do not depend on "
    "one another.",
    "Nothing is computed, and gradients are summed after the whole backward pass, hidden behind "
    "nothing.",
    "Stages that do not divide the layers drop the rest of them without a word (steptime refuses "
    "them).",
    "More stages than layers write out of bounds, one stage sends to a rank that does not exist, "
    "and no stages divide by zero (steptime refuses all three).",
    "A negative number of micro-batches skips the pipeline (steptime refuses it).",
    "A single argument is ignored, and a word in place of a number counts as 0.",
    "Ranks that the stages do not divide abort it with a stack trace (steptime refuses them).",
    "Its pipeline buffers are allocated anew in every step and never freed.",
)


@dataclass(frozen=True, kw_only=True)
class Layers:
    """Elements of an ``activation`` message, and of the gradients of a layer by its position."""

    name: str
    activation: int
    first: int
    middle: int
    last: int

    def parameters(self, layers: int) -> int:
        """Elements of the whole model."""
        return self.first + self.middle * (layers - 2) + self.last


def layerwise(
    model: Layers, *, ranks: int, layers: int, stages: int, micro_batches: int
) -> Program:
    """One step on stages × data ranks, of which the stages vary fastest.

    Raises UsageError where the stages are fewer than 2 or do not divide the layers or the ranks.
    """
    check_stages(model.name, stages)
    if layers % stages:
        below = layers // stages * stages
        nearest = f"{below} and {below + stages} are" if below else f"{stages} is"
        raise UsageError(
            f"{stages} stages of {model.name} do not divide {layers} layers: the nearest number of "
            f"layers that they divide {nearest} (the original would drop {layers % stages})"
        )
    check_multiple(f"{model.name} with {stages} stages", ranks, stages)
    replicas = ranks // stages
    each = layers // stages
    gradients = (
        (model.first, *(model.middle,) * (each - 1)),
        (model.middle,) * each,
        (*(model.middle,) * (each - 1), model.last),
    )
    kinds, class_of = kinds_of_stages(ranks, stages)
    return Program(
        name=f"{model.name} pipeline {stages} × data {replicas}",
        axes={PIPELINE: stages, DATA: replicas},
        lists=tuple(
            _ops(model, kind, gradients[kind] if replicas > 1 else (), micro_batches)
            for kind in kinds
        ),
        class_of=class_of,
    )


def kinds_of_stages(ranks: int, stages: int) -> tuple[list[int], Ints]:
    """The kinds of stages that occur, and the kind of each rank, shape (ranks,).

    FIRST, MIDDLE where there are more than two stages, and LAST.
    """
    stage = np.arange(ranks) % stages
    kind = np.where(stage == 0, FIRST, np.where(stage == stages - 1, LAST, MIDDLE))
    kinds, class_of = np.unique(kind, return_inverse=True)
    return kinds.tolist(), class_of.astype(np.int32)


def _ops(
    model: Layers, kind: int, gradients: tuple[int, ...], micro_batches: int
) -> tuple[Op, ...]:
    calls = Calls()
    for tag, (direction, by) in enumerate((("forward", 1), ("backward", -1))):
        enters, leaves = (FIRST, LAST) if by > 0 else (LAST, FIRST)
        for number in range(micro_batches):
            posted = []
            if kind != leaves:
                name = f"send {direction} {number}"
                posted.append(calls.post(send(name, PIPELINE, by, model.activation, tag=tag)))
            if kind != enters:
                name = f"receive {direction} {number}"
                posted.append(calls.post(recv(name, PIPELINE, -by, model.activation, tag=tag)))
            calls.wait(f"{direction} {number}", *posted)
    for number, elements in enumerate(gradients):
        calls.call(collective(f"gradients {number}", "all_reduce", (DATA,), elements))
    return calls.ops
