"""safetensors: named tensors in a file that holds no code.

8 bytes with the length of a JSON header, the header, then the tensors one after the other; each
entry of the header tells dtype, shape and where its bytes begin and end behind the header
(huggingface/safetensors, "Format"). Reading the header needs no torch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from steptime.errors import UsageError
from steptime.files import atomic_file, checked, opened, parsed_json, reading

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

_LENGTH_BYTES = 8
_MOST_HEADER = 100_000_000  # bytes; the limit of the format's own library
_METADATA = "__metadata__"
_ALIGNED = 8  # the header is padded with blanks, so that tensors begin at a multiple
_BYTES = {
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E4M3", "F8_E5M2"), 1),
    **dict.fromkeys(("U16", "I16", "F16", "BF16"), 2),
    **dict.fromkeys(("U32", "I32", "F32"), 4),
    **dict.fromkeys(("U64", "I64", "F64"), 8),
}
_TORCH = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""The dtypes of weights, by their names in the header and in torch."""


@dataclass(frozen=True)
class Stored:
    """A tensor in a file: its bytes are those from ``begin`` to ``end`` of the file."""

    path: Path
    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


@dataclass(frozen=True)
class _Entry:
    """What the header tells of a tensor."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def read_stored(
    path: Path, kind: str = "weights", mend: str = "copy the file again"
) -> tuple[dict[str, Stored], dict[str, str]]:
    """The tensors in a file, by name, and its metadata, once size and header have been compared.

    Raises UsageError, which says what ``kind`` of file it is and how to ``mend`` it, where it
    cannot be read or is no such file, where a dtype is not known, or where the tensors overlap,
    leave gaps or do not end with the file.
    """
    with opened(path, kind) as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
        start = _LENGTH_BYTES + length
        if not 2 <= length <= min(_MOST_HEADER, size - _LENGTH_BYTES):
            raise UsageError(
                f"{path} is no safetensors file: its header would have {length:,} bytes, and the "
                f"file has {size:,}; {mend}"
            )
        header = file.read(length)
    with reading(path, kind, mend):
        table: dict[str, Any] = parsed_json(header, dict)
        metadata = checked(table.pop(_METADATA, {}), dict[str, str])
        entries = {name: _entry(name, one) for name, one in table.items()}
        reached = 0
        for name, one in sorted(entries.items(), key=lambda item: item[1].data_offsets):
            begin, end = one.data_offsets
            if begin != reached or end - begin != prod(one.shape) * _BYTES[one.dtype]:
                raise ValueError(f"{name!r} is not where its header says, or of another size")
            reached = end
        if start + reached != size:
            raise ValueError(f"it has {size:,} bytes and its header asks for {start + reached:,}")
    stored = {
        name: Stored(path, name, one.dtype, one.shape, *(start + at for at in one.data_offsets))
        for name, one in entries.items()
    }
    return stored, metadata


def read_tensor(stored: Stored) -> Tensor:
    """The tensor, mapped and not read; raises UsageError where its dtype is not that of weights."""
    import torch

    if stored.dtype not in _TORCH:
        raise UsageError(
            f"{stored.path} holds {stored.name} in {stored.dtype}: weights are read in "
            f"{', '.join(_TORCH)}, not quantised"
        )
    size = stored.end - stored.begin
    # Copied on write: torch has no tensors that cannot be written to.
    raw = np.memmap(stored.path, np.uint8, "c", stored.begin, (size,))
    return torch.from_numpy(raw).view(getattr(torch, _TORCH[stored.dtype])).view(stored.shape)


def write_safetensors(path: Path, tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Write tensors of the dtypes of weights; the file appears whole or not at all.

    The header says that PyTorch wrote them, without which transformers does not read a file.
    Raises OSError when it cannot be written.
    """
    import torch

    names = {getattr(torch, name): short for short, name in _TORCH.items()}
    tensors = list(tensors)
    listed = [(name, names[tensor.dtype], tuple(tensor.shape)) for name, tensor in tensors]
    with atomic_file(path) as file:
        file.write(header_of(listed, {"format": "pt"}))
        for _, tensor in tensors:
            values = tensor.detach().cpu().contiguous()
            file.write(values.view(-1).view(torch.uint8).numpy().data)


def header_of(
    tensors: Iterable[tuple[str, str, tuple[int, ...]]], metadata: Mapping[str, str]
) -> bytes:
    """What stands in a file before its tensors, each of which is a name, a dtype and a shape."""
    header: dict[str, object] = {_METADATA: metadata}
    reached = 0
    for name, dtype, shape in tensors:
        begin, reached = reached, reached + prod(shape) * _BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": (begin, reached)}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNED)
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text


def _entry(name: str, told: Mapping[str, Any]) -> _Entry:
    """One entry of the header; raises an error for ``reading`` where it is none."""
    entry = checked(told, _Entry)
    if entry.dtype not in _BYTES:
        raise ValueError(f"{name!r} is of the dtype {entry.dtype!r}, which is not known here")
    if any(size < 0 for size in (*entry.shape, *entry.data_offsets)):
        raise ValueError(f"{name!r} has a size below 0")
    return entry
