"""The names that traces have for calls and for types of elements."""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

_KINDS = (
    # The first that a name holds, letters alone, is what it is: reduce_scatter before reduce.
    ("barrier", "barrier"),
    ("reducescatter", "reduce_scatter"),
    ("allreduce", "all_reduce"),
    ("allgather", "all_gather"),
    ("alltoall", "all_to_all"),
    ("sendrecv", "all_to_all"),
    ("broadcast", "broadcast"),
    ("scatter", "scatter"),
    ("gather", "gather"),
    ("reduce", "reduce"),
    ("isend", "send"),
    ("irecv", "recv"),
    ("send", "send"),
    ("recv", "recv"),
)

_ITEM_BYTES: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("float", "float32", "int", "int32", "uint32", "unsignedint"), 4),
        **dict.fromkeys(("double", "float64", "long", "longint", "int64", "uint64"), 8),
        **dict.fromkeys(("half", "float16", "bfloat16", "short", "shortint", "int16"), 2),
        **dict.fromkeys(("byte", "char", "bool", "int8", "uint8"), 1),
        **dict.fromkeys(("unsignedchar", "signedchar", "float8e4m3fn", "float8e5m2"), 1),
        **dict.fromkeys(("complexfloat", "complex64"), 8),
        **dict.fromkeys(("complexdouble", "complex128"), 16),
    }
)


def kind_of(name: str) -> str:
    """The collective that a call, an annotation or a kernel of that name is; empty if none."""
    letters = re.sub(r"[^a-z]", "", name.lower())
    return next((kind for part, kind in _KINDS if part in letters), "")


def item_bytes(dtype: str) -> int:
    """Bytes of an element by its name in C++, in torch or in a trace; 0 where it is not known."""
    plain = re.sub(r"[^a-z0-9]", "", dtype.lower().rpartition("::")[2].removeprefix("torch."))
    return _ITEM_BYTES.get(plain, 0)


def elements(shape: Sequence[int]) -> int:
    """How many elements a tensor has; 0 where a size is negative."""
    count = 1
    for size in shape:
        count *= max(0, size)
    return count


def vector_elements(kind: str, into: int, out_of: int, members: int) -> int:
    """Elements of the whole vector, of those that go into a call of a rank and come out of it."""
    if kind == "barrier":
        return 0
    if kind in ("all_gather", "gather"):
        return max(out_of, into * members)
    if kind in ("reduce_scatter", "scatter"):
        return max(into, out_of * members)
    return max(into, out_of)
