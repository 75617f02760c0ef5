"""Pipeline timelines without communication time: the bubble, and activations in flight."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from steptime.errors import SteptimeError
from steptime.workloads.pipelines.schedule import Kind, Pass, Pipeline

SLOTS: Mapping[Kind, int] = MappingProxyType(
    {"forward": 1, "backward": 2, "backward input": 1, "backward weight": 1}
)
"""Duration of a pass in slots; a slot is one micro-batch forward through a chunk of layers."""


class Slot(NamedTuple):
    """A pass from ``start`` to ``end``, in slots."""

    run: Pass
    start: int
    end: int


@dataclass(frozen=True)
class PipelineTimeline:
    """The passes of each stage of a pipeline in time, in order."""

    pipeline: Pipeline
    stages: tuple[tuple[Slot, ...], ...]

    @cached_property
    def slots(self) -> int:
        """The duration of the step."""
        return max(slots[-1].end for slots in self.stages)

    @cached_property
    def idle(self) -> tuple[int, ...]:
        """How many slots each stage is idle."""
        return tuple(
            self.slots - sum(slot.end - slot.start for slot in slots) for slots in self.stages
        )

    @property
    def bubble(self) -> float:
        """The idle fraction of the step, over all stages."""
        return sum(self.idle) / (len(self.stages) * self.slots)

    @property
    def bubble_ratio(self) -> float:
        """Idle over useful time."""
        return self.bubble / (1 - self.bubble)

    @cached_property
    def in_flight(self) -> tuple[int, ...]:
        """The most forwards of one chunk of which each stage keeps the activations at a time."""
        return tuple(_most_kept(slots) for slots in self.stages)


def pipeline_timeline(pipeline: Pipeline) -> PipelineTimeline:
    """Run each pass as soon as its stage is free and its inputs are there.

    Raises SteptimeError where the schedule deadlocks.
    """
    shape = pipeline.shape
    waiting = [list(pipeline.passes(stage))[::-1] for stage in range(shape.stages)]
    stages: list[list[Slot]] = [[] for _ in waiting]
    ends: dict[tuple[Kind, int, int], int] = {}
    moved = True
    while moved:
        moved = False
        for stage, passes in enumerate(waiting):
            while passes:
                needed = list(_needs(pipeline, stage, passes[-1]))
                if any(need not in ends for need in needed):
                    break
                run = passes.pop()
                free = stages[stage][-1].end if stages[stage] else 0
                start = max([free, *(ends[need] for need in needed)])
                slot = Slot(run, start, start + SLOTS[run.kind])
                stages[stage].append(slot)
                ends[_made(run.kind), run.micro_batch, shape.piece(stage, run.chunk)] = slot.end
                moved = True
    if any(waiting):
        raise SteptimeError(f"the schedule {pipeline.schedule.name} waits for itself")
    return PipelineTimeline(pipeline, tuple(map(tuple, stages)))


def _needs(pipeline: Pipeline, stage: int, run: Pass) -> Iterator[tuple[Kind, int, int]]:
    """The passes that must end before this one: kind, micro-batch and piece of the model."""
    number, piece = run.micro_batch, pipeline.shape.piece(stage, run.chunk)
    if run.kind == "backward weight":
        yield "backward input", number, piece
    elif run.kind == "forward":
        if piece > 0:
            yield "forward", number, piece - 1
    else:
        yield "forward", number, piece
        if piece < pipeline.shape.pieces - 1:
            yield "backward input", number, piece + 1


def _made(kind: Kind) -> Kind:
    """What others wait for: of a whole backward the gradient of its input."""
    return "backward input" if kind == "backward" else kind


def _most_kept(slots: tuple[Slot, ...]) -> int:
    kept = most = 0
    for slot in slots:
        kept += slot.run.forward - slot.run.releases
        most = max(most, kept)
    return most
