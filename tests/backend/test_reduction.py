"""Reductions of a few contributions in every dtype, against exact arithmetic in Python."""

import pytest
import torch

from steptime.backend import reduction
from steptime.backend.folding import fold

_WHOLE = (
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint32,
    torch.uint64,
)
_REAL = (
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
)
_WANT = {"sum": 12, "avg": 4, "min": 2, "max": 7, "product": 42, "band": 2, "bor": 7, "bxor": 6}
_BITWISE = (reduction.BAND, reduction.BOR, reduction.BXOR)
_OPS = (reduction.SUM, reduction.AVG, reduction.MIN, reduction.MAX, reduction.PRODUCT)


def _folded(op: reduction.Reduction, dtype: torch.dtype, *values: float) -> float:
    out = torch.zeros(1).to(dtype)
    fold(op, [torch.tensor([value], dtype=dtype) for value in values], out)
    return float(out.to(torch.float64).item()) if dtype.is_floating_point else out.item()


@pytest.mark.parametrize("op", _OPS + _BITWISE, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", _WHOLE, ids=str)
def test_whole_numbers(op: reduction.Reduction, dtype: torch.dtype) -> None:
    values = (7, 2, 3)
    want = _WANT[op.name]
    assert _folded(op, dtype, *values) == want


@pytest.mark.parametrize("op", _OPS, ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", _REAL, ids=str)
def test_real_numbers(op: reduction.Reduction, dtype: torch.dtype) -> None:
    exact = torch.tensor([_WANT[op.name]], dtype=torch.float64).to(dtype).to(torch.float64).item()
    assert _folded(op, dtype, 7, 2, 3) == exact


def test_the_upper_half_of_uint64() -> None:
    big = 2**63 + 5
    assert _folded(reduction.MAX, torch.uint64, 3, big) == big
    assert _folded(reduction.MIN, torch.uint64, big, 3) == 3


def test_functions_of_ones_own_see_lower_ranks_first() -> None:
    minus = reduction.custom("minus", torch.sub)
    assert _folded(minus, torch.int32, 10, 3, 2) == 5
