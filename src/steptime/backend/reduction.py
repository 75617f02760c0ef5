"""What a reduction does to two blocks of elements, and the reductions that everyone needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

Combine: TypeAlias = Callable[..., object]
"""``combine(a, b, out=out)``: an elementwise function of two tensors, such as ``torch.add``, that
writes its result into a third, which may be one of them."""


@dataclass(frozen=True)
class Reduction:
    """An elementwise reduction of the tensors of all ranks.

    Contributions are combined in the order of the ranks, 0 first, so every rank gets the same
    bits. ``finish(result, ranks)`` turns the combined elements into the result, in place. Where
    ``wide``, elements of a dtype that float32 or complex64 contains are combined in that and
    rounded once, at the end.
    """

    name: str
    combine: Combine
    finish: Callable[[Tensor, int], object] | None = None
    wide: bool = False

    def accumulator(self, dtype: torch.dtype) -> torch.dtype:
        """The dtype in which elements of ``dtype`` are combined."""
        return _WIDE.get(dtype, dtype) if self.wide else dtype


def custom(name: str, function: Callable[[Tensor, Tensor], Tensor]) -> Reduction:
    """A reduction by a function of one's own.

    ``function(a, b)`` takes two 1-D tensors of equal length and dtype and returns a third; it must
    be elementwise, for it sees a tensor in blocks. ``a`` combines the lower ranks. All ranks must
    give the same ``name``, by which they tell whether they agree.
    """

    def combine(a: Tensor, b: Tensor, *, out: Tensor) -> None:
        out.copy_(function(a, b))

    return Reduction(name, combine)


def _divide(result: Tensor, ranks: int) -> None:
    if result.is_floating_point() or result.is_complex():
        result.div_(ranks)
    else:
        result.div_(ranks, rounding_mode="trunc")


_NARROW = (
    torch.bfloat16,
    torch.float16,
    torch.float8_e4m3fn,
    torch.float8_e4m3fnuz,
    torch.float8_e5m2,
    torch.float8_e5m2fnuz,
)
_WIDE = dict.fromkeys(_NARROW, torch.float32) | {torch.complex32: torch.complex64}

SUM = Reduction("sum", torch.add, wide=True)
AVG = Reduction("avg", torch.add, finish=_divide, wide=True)
MIN = Reduction("min", torch.minimum)
MAX = Reduction("max", torch.maximum)
PRODUCT = Reduction("product", torch.mul, wide=True)
BAND = Reduction("band", torch.bitwise_and)
BOR = Reduction("bor", torch.bitwise_or)
BXOR = Reduction("bxor", torch.bitwise_xor)
