"""Bytes of an element, of what its update moves, and of what the optimizer keeps of it."""

from typing import Literal, TypeAlias, get_args

from steptime.dtypes import item_bytes
from steptime.errors import UsageError

DtypeName: TypeAlias = Literal["fp32", "bf16", "fp16"]
"""What a model can be trained in."""

_MOMENTS = 8  # two, in fp32
_ADAMW_BYTES = 28  # fp32 weight, gradient and two moments are read, all but the gradient written


def element_bytes(dtype: str) -> int:
    """Bytes of one element; raises UsageError, naming those there are, for another dtype."""
    if dtype not in get_args(DtypeName):
        raise UsageError(
            f"there is no dtype {dtype!r} to train in: choose {', '.join(get_args(DtypeName))}"
        )
    return item_bytes(dtype)


def update_bytes(dtype: str) -> int:
    """Memory traffic of AdamW for one weight, and of its copy in ``dtype`` where it has one."""
    return _ADAMW_BYTES + (element_bytes(dtype) if dtype != "fp32" else 0)


def state_bytes(dtype: str) -> int:
    """What AdamW keeps of one weight: two moments and, of one in another dtype, an fp32 master."""
    return _MOMENTS + (element_bytes("fp32") if dtype != "fp32" else 0)
