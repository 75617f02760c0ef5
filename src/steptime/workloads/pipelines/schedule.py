"""Schedule: the order of each stage's passes in a pipeline."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal["forward", "backward", "backward input", "backward weight"]

KINDS: tuple[Kind, ...] = ("forward", "backward", "backward input", "backward weight")
"""A schedule runs ``backward`` whole, or in two: the gradient of the input, which the stage before
waits for, and that of the weights, for which no stage waits."""


class Pass(NamedTuple):
    """One micro-batch through one chunk of a stage's layers, in one direction."""

    kind: Kind
    micro_batch: int
    chunk: int = 0

    @property
    def forward(self) -> bool:
        """Whether it is a forward pass."""
        return self.kind == "forward"

    @property
    def releases(self) -> bool:
        """Whether it is the last that needs the activations kept by its forward."""
        return self.kind in ("backward", "backward weight")


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The size of a pipeline.

    Each stage holds ``chunks`` pieces of the model: chunk c of stage s is piece c·stages + s or,
    of a ``folded`` pipeline, which turns at the last stage, piece s and piece 2·stages - 1 - s.
    """

    stages: int
    micro_batches: int
    chunks: int = 1
    folded: bool = False

    def piece(self, stage: int, chunk: int) -> int:
        """The number, in forward order, of the piece of the model in a stage's chunk."""
        if self.folded and chunk:
            return 2 * self.stages - 1 - stage
        return chunk * self.stages + stage

    def way(self, piece: int, to: int) -> int:
        """By how many stages what a piece sends to the one before or behind it travels.

        0 where that is on the same stage; the stages are a ring.
        """
        if not self.folded:
            return to - piece
        return min(to, self.pieces - 1 - to) - min(piece, self.pieces - 1 - piece)

    @property
    def pieces(self) -> int:
        """The number of pieces into which the model is cut."""
        return self.stages * self.chunks


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """A schedule: ``passes`` yields the passes of a stage of a shape, in order.

    ``interleaved``: whether it takes stages of several chunks, and only multiples of the stages as
    micro-batches. ``folded``: whether it takes stages of two chunks, the second on the way back,
    and at least twice as many micro-batches as stages.
    """

    name: str
    summary: str
    passes: Callable[[Shape, int], Iterator[Pass]]
    interleaved: bool = False
    folded: bool = False

    @property
    def fewest_chunks(self) -> int:
        """The fewest chunks a stage that it takes."""
        return 2 if self.interleaved or self.folded else 1


@dataclass(frozen=True)
class Pipeline:
    """A schedule applied to a shape."""

    schedule: Schedule
    shape: Shape

    def passes(self, stage: int) -> Iterator[Pass]:
        """The passes of ``stage``, counted from 0, in order."""
        return self.schedule.passes(self.shape, stage)
