"""Reduction: an elementwise operation on two blocks, and the predefined ones: sum, avg, max…."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

Combine: TypeAlias = Callable[..., object]
"""``combine(a, b, out=out)``: an elementwise function of two tensors, such as ``torch.add``, that
writes its result into a third, which may be one of them."""


@dataclass(frozen=True)
class Reduction:
    """An elementwise reduction of the tensors of all ranks.

    Contributions are combined in the order of the ranks, 0 first, so every rank gets the same bits.
    ``finish(result, ranks)`` turns the combined elements into the result, in place. Where ``wide``,
    elements of a dtype that float32 or complex64 contains are combined in that and rounded once, at
    the end. Those of float8, which has no arithmetic, always are.
    """

    name: str
    combine: Combine
    finish: Callable[[Tensor, int], object] | None = None
    wide: bool = False

    def accumulator(self, dtype: torch.dtype) -> torch.dtype:
        """The dtype in which elements of ``dtype`` are combined."""
        return _WIDE.get(dtype, dtype) if self.wide or dtype in _FLOAT8 else dtype


def custom(name: str, function: Callable[[Tensor, Tensor], Tensor]) -> Reduction:
    """A Reduction by a user's function.

    ``function(a, b)`` takes two 1-D tensors of equal length and dtype and returns a third; it must
    be elementwise, since it is called on blocks of a tensor. ``a`` combines the lower ranks. All
    ranks must give the same ``name``: by it they check that they call the same.
    """

    def combine(a: Tensor, b: Tensor, *, out: Tensor) -> None:
        out.copy_(function(a, b))

    return Reduction(name, combine)


def _divide(result: Tensor, ranks: int) -> None:
    if result.dtype in _UNSIGNED:
        result.numpy()[...] //= ranks
    elif result.is_floating_point() or result.is_complex():
        result.div_(ranks)
    else:
        result.div_(ranks, rounding_mode="trunc")


def _also_unsigned(torch_op: Combine, numpy_op: Combine) -> Combine:
    """``torch_op``, or ``numpy_op`` for the unsigned dtypes in which torch cannot compute."""

    def combine(a: Tensor, b: Tensor, *, out: Tensor) -> None:
        if a.dtype in _UNSIGNED:
            numpy_op(a.numpy(), b.numpy(), out=out.numpy())
        else:
            torch_op(a, b, out=out)

    return combine


_UNSIGNED = {torch.uint16, torch.uint32, torch.uint64}
_FLOAT8 = {torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz}
_WIDE = dict.fromkeys({torch.bfloat16, torch.float16} | _FLOAT8, torch.float32) | {
    torch.complex32: torch.complex64
}

_ADD = _also_unsigned(torch.add, np.add)

SUM = Reduction("sum", _ADD, wide=True)
AVG = Reduction("avg", _ADD, finish=_divide, wide=True)
MIN = Reduction("min", _also_unsigned(torch.minimum, np.minimum))
MAX = Reduction("max", _also_unsigned(torch.maximum, np.maximum))
PRODUCT = Reduction("product", torch.mul, wide=True)
BAND = Reduction("band", torch.bitwise_and)
BOR = Reduction("bor", torch.bitwise_or)
BXOR = Reduction("bxor", torch.bitwise_xor)
