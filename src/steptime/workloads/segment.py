"""Segments: parts of a model computed without communication, and the collectives around them."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from steptime.program import Collective
from steptime.workloads.mesh import Mesh
from steptime.workloads.models import Part
from steptime.workloads.part_kernels import Share
from steptime.workloads.precision import element_bytes

Recompute: TypeAlias = Literal["none", "selective", "full"]


@dataclass(frozen=True, kw_only=True)
class Cut:
    """How a micro-batch and the layers are divided among ranks.

    A micro-batch is ``rows`` rows of ``row`` tokens, which the ranks along ``context`` share.
    ``hidden``: the width of the residual stream, ``kv_width`` that of all heads' keys and values,
    ``experts`` how many there are, ``top_k`` how many a token goes to. Where ``sequence_parallel``,
    ranks along ``tensor`` hold their share of the tokens between the halves of a block instead of
    all of them. ``dtype``: of elements; ``products``: of the products of blocks, where that is
    another.
    """

    mesh: Mesh
    rows: int
    row: int
    hidden: int
    kv_width: int
    experts: int
    top_k: int
    dtype: str
    sequence_parallel: bool = False
    products: str | None = None

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch that a rank computes with."""
        return self.rows * self.row // self.mesh.context

    @property
    def tokens_held(self) -> int:
        """Tokens of a micro-batch that a rank holds between the halves of a block."""
        return self.tokens // (self.mesh.tensor if self.sequence_parallel else 1)

    @property
    def share(self) -> Share:
        """What a rank computes of a micro-batch."""
        return Share(
            tokens=self.tokens,
            held=self.tokens_held,
            rows=self.rows,
            row=self.row,
            tensor=self.mesh.tensor,
            dtype=self.dtype,
        )

    def activation_bytes(self, tokens: int) -> int:
        """Bytes of the activations of so many tokens between two layers."""
        return tokens * self.hidden * element_bytes(self.dtype)


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A part of the model, with the collectives that its ranks call around it.

    A collective is named after the data that it moves. Forward, those of ``enter`` come before
    computing and those of ``leave`` after it; backward those of ``enter_backward`` and
    ``leave_backward``.
    """

    part: Part
    enter: tuple[Collective, ...] = ()
    leave: tuple[Collective, ...] = ()
    enter_backward: tuple[Collective, ...] = ()
    leave_backward: tuple[Collective, ...] = ()
