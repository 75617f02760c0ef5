"""Tensors, parts and units: the pieces of a model, with the FLOP of each."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod


@dataclass(frozen=True)
class Tensor:
    """One parameter of a model. ``split``: tensor parallelism divides it among its ranks.

    ``expert``: whether it belongs to one of several experts, of which a token uses only some.
    """

    name: str
    shape: tuple[int, ...]
    split: bool
    expert: bool = False

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of the model that tensor-parallel ranks compute without communication.

    A token is also a sample of a model that has no rows of tokens: an image, a volume.

    ``multiplied``: parameters that a pass multiplies with, those of a tied table included.
    ``attending``: FLOP that one token spends in forward on each token of its row, or of the last
    ``window`` where that is not 0. ``multiply_adds``: of one token in forward, where they are not
    one for each of ``multiplied``: a convolution uses a parameter at many places, a token only some
    experts. ``duplicated``: those of ``multiplied`` that every tensor-parallel rank multiplies
    with.

    ``kept``: elements of one token that are computed within and kept for backward, besides the
    input, divided by tensor-parallel ranks; ``kept_whole``: those that each of them keeps.

    ``heads``: of attention; ``causal``: whether a token sees only those before it. ``borrowed``:
    tensors of another part that it multiplies with. ``moved``: elements of one token that forward
    reads and writes between its products, divided by tensor-parallel ranks; ``moved_whole``: those
    that each of them moves.
    """

    name: str
    tensors: tuple[Tensor, ...]
    multiplied: int
    attending: int = 0
    window: int = 0
    multiply_adds: int | None = None
    duplicated: int = 0
    kept: int = 0
    kept_whole: int = 0
    heads: int = 0
    causal: bool = True
    borrowed: tuple[Tensor, ...] = ()
    moved: int = 0
    moved_whole: int = 0

    @property
    def parameters(self) -> int:
        """Elements of its tensors."""
        return size(self.tensors)

    def forward_flops(self, row: int) -> float:
        """FLOP of the forward of one token in a row of ``row``; backward takes twice as many."""
        return self.weight_flops + self.score_flops(row)

    def score_flops(self, row: int) -> float:
        """Those of them for attention to the tokens of the row."""
        return float(self.attending) * (min(row, self.window) if self.window else row)

    @property
    def weight_flops(self) -> float:
        """FLOP of one token with parameters in a pass: forward, or gradient of either factor."""
        return 2.0 * (self.multiplied if self.multiply_adds is None else self.multiply_adds)


@dataclass(frozen=True)
class Unit:
    """A module in the order of forward: the embedding, each block, the head.

    ``activations``: elements of one token in its output.
    """

    name: str
    parts: tuple[Part, ...]
    activations: int

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors of all its parts, in order."""
        return tuple(tensor for part in self.parts for tensor in part.tensors)

    @property
    def parameters(self) -> int:
        """Elements of its tensors."""
        return sum(part.parameters for part in self.parts)

    def forward_flops(self, row: int) -> float:
        """FLOP of the forward of one token in a row of ``row``; backward takes twice as many."""
        return sum(part.forward_flops(row) for part in self.parts)


def size(tensors: Iterable[Tensor]) -> int:
    """The sum of the elements of all ``tensors``."""
    return sum(tensor.size for tensor in tensors)


def linear(
    name: str,
    inputs: int,
    outputs: int,
    *,
    biased: bool = True,
    by_column: bool = False,
    split: bool = True,
    expert: bool = False,
) -> Iterator[Tensor]:
    """Cut by column the bias is cut too; by row every rank adds to all outputs (Megatron-LM)."""
    yield Tensor(f"{name}.weight", (outputs, inputs), split, expert)
    if biased:
        yield Tensor(f"{name}.bias", (outputs,), split and by_column, expert)


def norm(name: str, width: int, *, biased: bool = True) -> Iterator[Tensor]:
    """LayerNorm or BatchNorm or, without a bias, RMSNorm; every rank has all of it."""
    for which in ("weight", "bias")[: 1 + biased]:
        yield Tensor(f"{name}.{which}", (width,), split=False)
