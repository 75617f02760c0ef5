"""Dtypes: element types by their names and bytes, and the integers they represent exactly."""

from dataclasses import dataclass
from types import MappingProxyType

from steptime.errors import UsageError
from steptime.nearest import mend


@dataclass(frozen=True)
class Dtype:
    """A type of elements: its name in torch and NumPy, in programs, and in nccl-tests.

    ``size``: bytes of an element.
    Every integer up to ``largest`` and every power of two up to 2**``exponent`` is exact in it;
    ``epsilon`` is the distance from 1 to the next number, 0 for integers.
    """

    name: str
    short: str
    nccl_name: str
    size: int
    largest: int
    exponent: int
    epsilon: float = 0.0


# What is read back is compared as float64, so an int64 counts as exact no further than that is.
DTYPES = MappingProxyType(
    {
        dtype.name: dtype
        for dtype in (
            Dtype("float32", "fp32", "float", 4, 1 << 24, 127, 2.0**-23),
            Dtype("float64", "fp64", "double", 8, 1 << 53, 1023, 2.0**-52),
            Dtype("float16", "fp16", "half", 2, 1 << 11, 15, 2.0**-10),
            Dtype("bfloat16", "bf16", "bfloat16", 2, 1 << 8, 127, 2.0**-7),
            Dtype("int8", "int8", "int8", 1, (1 << 7) - 1, 6),
            Dtype("uint8", "uint8", "uint8", 1, (1 << 8) - 1, 7),
            Dtype("int32", "int32", "int32", 4, (1 << 31) - 1, 30),
            Dtype("int64", "int64", "int64", 8, 1 << 53, 52),
        )
    }
)


BY_SHORT_NAME = MappingProxyType({dtype.short: dtype for dtype in DTYPES.values()})
"""Dtypes by their names in programs and cluster files: fp32, bf16."""


def item_bytes(short: str) -> int:
    """Bytes of an element of a dtype by its short name; KeyError where there is none."""
    return BY_SHORT_NAME[short].size


def dtype_named(name: str) -> Dtype:
    """The dtype of that name in torch or nccl-tests, or a UsageError that lists them."""
    for dtype in DTYPES.values():
        if name in (dtype.name, dtype.nccl_name):
            return dtype
    raise UsageError(f"there is no datatype {name!r}: {mend(name, DTYPES)}")
