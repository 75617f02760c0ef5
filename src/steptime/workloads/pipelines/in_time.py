"""When each pass of a pipeline runs, where messages take no time: its bubble and what it keeps."""

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
"""What a pass takes. A slot is the forward of a micro-batch through a chunk of layers."""


class Slot(NamedTuple):
    """A pass from ``start`` to ``end``, in slots."""

    run: Pass
    start: int
    end: int


@dataclass(frozen=True)
class PipelineTimeline:
    """A pipeline in time: the passes of each stage, in order."""

    pipeline: Pipeline
    stages: tuple[tuple[Slot, ...], ...]

    @cached_property
    def slots(self) -> int:
        """How long the step takes."""
        return max(slots[-1].end for slots in self.stages)

    @cached_property
    def idle(self) -> tuple[int, ...]:
        """For how many slots each stage has nothing to do."""
        return tuple(
            self.slots - sum(slot.end - slot.start for slot in slots) for slots in self.stages
        )

    @property
    def bubble(self) -> float:
        """The idle part of the step, over all stages."""
        return sum(self.idle) / (len(self.stages) * self.slots)

    @property
    def bubble_ratio(self) -> float:
        """Idle over useful time."""
        return self.bubble / (1 - self.bubble)

    @cached_property
    def in_flight(self) -> tuple[int, ...]:
        """How many forwards each stage keeps the activations of, at most, through one chunk."""
        return tuple(_most_kept(slots) for slots in self.stages)


def pipeline_timeline(pipeline: Pipeline) -> PipelineTimeline:
    """Each pass as soon as its stage is free and what it needs is there.

    Raises SteptimeError where a stage's order waits for what never comes.
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
                ends[run.kind, run.micro_batch, shape.piece(stage, run.chunk)] = slot.end
                moved = True
    if any(waiting):
        raise SteptimeError(f"the schedule {pipeline.schedule.name} waits for itself")
    return PipelineTimeline(pipeline, tuple(map(tuple, stages)))


def _needs(pipeline: Pipeline, stage: int, run: Pass) -> Iterator[tuple[Kind, int, int]]:
    """The passes, as kind, micro-batch and piece of the model, that must end before this one."""
    number, piece = run.micro_batch, pipeline.shape.piece(stage, run.chunk)
    if run.kind == "backward weight":
        yield "backward input", number, piece
    elif run.kind == "forward":
        if piece > 0:
            yield "forward", number, piece - 1
    else:
        yield "forward", number, piece
        if piece < pipeline.shape.pieces - 1:
            yield run.kind, number, piece + 1


def _most_kept(slots: tuple[Slot, ...]) -> int:
    kept = most = 0
    for slot in slots:
        kept += slot.run.forward - slot.run.releases
        most = max(most, kept)
    return most
