"""What a pipeline schedule is: the order of each stage's passes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["forward", "backward", "backward input", "backward weight"]

KINDS: tuple[Kind, ...] = ("forward", "backward", "backward input", "backward weight")
"""A schedule runs ``backward``, or splits it: the gradient that the stage before waits for, and
that of the weights, for which nobody waits."""


class Pass(NamedTuple):
    """One micro-batch through one chunk of a stage's layers, forward or backward."""

    kind: Kind
    micro_batch: int
    chunk: int = 0

    @property
    def forward(self) -> bool:
        """Whether it goes towards the loss."""
        return self.kind == "forward"

    @property
    def releases(self) -> bool:
        """Whether it is the last to need the activations that its forward has kept."""
        return self.kind in ("backward", "backward weight")


@dataclass(frozen=True, kw_only=True)
class Shape:
    """How much there is to schedule.

    Each stage holds ``chunks`` pieces of the model: chunk c of stage s is piece c·stages + s.
    """

    stages: int
    micro_batches: int
    chunks: int = 1

    def piece(self, stage: int, chunk: int) -> int:
        """Which piece of the model, in forward order, a chunk of a stage is."""
        return chunk * self.stages + stage

    @property
    def pieces(self) -> int:
        """Into how many pieces the model is cut."""
        return self.stages * self.chunks


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A schedule: ``passes`` yields what a stage of a shape runs, in order.

    ``interleaved``: it takes stages of several chunks, and micro-batches by the number of stages.
    """

    name: str
    summary: str
    passes: Callable[[Shape, int], Iterator[Pass]]
    interleaved: bool = False


@dataclass(frozen=True)
class Pipeline:
    """A schedule with the shape that it serves."""

    schedule: Schedule
    shape: Shape

    def passes(self, stage: int) -> Iterator[Pass]:
        """What ``stage``, counted from 0, runs in order."""
        return self.schedule.passes(self.shape, stage)
