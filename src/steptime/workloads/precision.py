"""Precision: bytes of an element, of the traffic of its update, and of its optimizer state."""

from typing import Literal, TypeAlias, cast, get_args

from steptime.dtypes import item_bytes
from steptime.errors import UsageError

DtypeName: TypeAlias = Literal["fp32", "bf16", "fp16"]
"""The dtypes of a trained model's elements."""

PrecisionName: TypeAlias = Literal["fp32", "bf16", "fp16", "bf16-params", "fp8-emulated"]
"""The ways to train a model here: in a dtype with weights kept in fp32, in bf16 with those in bf16
too, or in bf16 with the inputs of the blocks' products rounded to fp8."""

Rounding: TypeAlias = Literal["nearest", "stochastic"]

_ELEMENTS: dict[str, DtypeName] = {"fp8": "bf16", "fp8-emulated": "bf16", "bf16-params": "bf16"}
"""The dtypes of elements where these are not of the products' own."""

_MOMENTS = 8  # two, in fp32
_ADAMW_BYTES = 28  # fp32 weight, gradient and two moments are read, all but the gradient written


def element_dtype(precision: str) -> DtypeName:
    """The dtype of elements, kept and communicated: of fp8, which has products alone, bf16.

    So trains Transformer Engine (Micikevicius et al., arXiv 2209.05433).
    """
    return _ELEMENTS.get(precision, cast("DtypeName", precision))


def element_bytes(dtype: str) -> int:
    """Bytes of one element; raises UsageError, which lists all, for an unknown dtype."""
    if dtype not in get_args(DtypeName):
        raise UsageError(
            f"there is no dtype {dtype!r} to train in: choose {', '.join(get_args(DtypeName))}"
        )
    return item_bytes(dtype)


def update_bytes(dtype: str) -> int:
    """Memory traffic of AdamW for one weight, its copy in ``dtype`` included if it has one."""
    return _ADAMW_BYTES + (element_bytes(dtype) if dtype != "fp32" else 0)


def state_bytes(dtype: str) -> int:
    """AdamW's state of one weight: two moments and, unless it is fp32, an fp32 master."""
    return _MOMENTS + (element_bytes("fp32") if dtype != "fp32" else 0)
