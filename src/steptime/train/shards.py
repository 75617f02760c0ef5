"""Token shards: the .bin files of llm.c and nanoGPT.

llm.c: 256 little-endian int32, of which magic, version and the number of tokens are used, then
the tokens (llmc/dataloader.h, dev/data/data_common.py). nanoGPT: bare uint16, no header
(data/openwebtext/prepare.py).
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from steptime.errors import UsageError
from steptime.files import atomic_file, opened
from steptime.train.tokenizer import TokenArray

_HEADER_BYTES = 1024
_READ_AT_ONCE = 1 << 22  # tokens
_MOST_TOKENS = 2**31 - 1  # the header counts in int32
_LLMC_MAGICS = range(20240000, 20250000)  # as raw uint16 none begins with a GPT-2 token


@dataclass(frozen=True)
class _Format:
    """The vocabulary and dtype of the tokens in a shard, by llm.c's magic."""

    magic: int
    version: int
    dtype: str
    vocabulary: int
    name: str


_GPT2 = _Format(20240520, 1, "<u2", 50257, "GPT-2")
_LLAMA3 = _Format(20240801, 7, "<u4", 128256, "Llama 3")


def write_token_shard(path: Path, *parts: TokenArray) -> str:
    """Write tokens, part ``(T,)`` after part, as an llm.c shard, whole or not at all.

    uint8 and uint16 become GPT-2's format (uint16), uint32 Llama 3's. Returns the file's SHA-256.
    Raises ValueError for any other type, for parts of several, and for more tokens than the header
    can count (2^31 - 1).
    """
    (dtype,) = {part.dtype for part in parts}
    count = sum(len(part) for part in parts)
    if {part.ndim for part in parts} != {1} or dtype not in (np.uint8, np.uint16, np.uint32):
        raise ValueError(f"a shard is 1-D uint8, uint16 or uint32, not {parts[0].ndim}-D {dtype}")
    if count > _MOST_TOKENS:
        raise ValueError(f"a shard holds at most {_MOST_TOKENS} tokens, not {count}")
    form = _LLAMA3 if dtype == np.uint32 else _GPT2
    header = np.zeros(_HEADER_BYTES // 4, "<i4")
    header[:3] = form.magic, form.version, count
    digest = hashlib.sha256()
    with atomic_file(path) as file:
        for piece in (header, *(part.astype(form.dtype, copy=False) for part in parts)):
            digest.update(piece.data)
            file.write(piece.data)
    return digest.hexdigest()


def read_token_shard(path: Path) -> TokenArray:
    """The tokens ``(T,)`` of an llm.c shard, mapped: uint16 (GPT-2) or uint32 (Llama 3).

    Raises UsageError when the file cannot be read, has another magic or version, is not exactly
    as long as its header says, or holds no tokens.
    """
    start, size = _peek(path)
    if size < _HEADER_BYTES:
        raise UsageError(f"{path} is cut off: {size} bytes, and a shard's header alone is 1024")
    magic, version, count = (int(field) for field in np.frombuffer(start, "<i4"))
    form = next((form for form in (_GPT2, _LLAMA3) if form.magic == magic), None)
    if form is None:
        raise UsageError(
            f"{path} is no token shard: its magic is {magic}, and a shard's is {_GPT2.magic} "
            f"or {_LLAMA3.magic}"
        )
    if version != form.version:
        raise UsageError(
            f"{path} is a token shard of version {version}, and only version {form.version} is "
            f"known for magic {magic}: write it anew with llm.c's current scripts"
        )
    expected = _HEADER_BYTES + count * np.dtype(form.dtype).itemsize
    if size != expected or count < 0:
        raise UsageError(
            f"{path} is damaged: {size:,} bytes, and a header of {count:,} tokens asks for "
            f"{expected:,}; copy or write it anew"
        )
    return _map(path, form.dtype, _HEADER_BYTES, count)


def open_token_shard(path: Path) -> TokenArray:
    """The tokens ``(T,)`` of an llm.c or a nanoGPT shard, mapped and not read.

    A file that does not begin with one of llm.c's magics is nanoGPT's. Raises UsageError as
    ``read_token_shard`` does, and for a file that is not a whole number of uint16.
    """
    start, size = _peek(path)
    if len(start) >= 4 and int.from_bytes(start[:4], "little") in _LLMC_MAGICS:
        return read_token_shard(path)
    if size % 2:
        raise UsageError(
            f"{path} is no token shard: it has no llm.c header, and {size:,} bytes are not a whole "
            "number of nanoGPT's uint16 tokens"
        )
    return _map(path, _GPT2.dtype, 0, size // 2)


def shard_vocabulary(tokens: TokenArray) -> tuple[str, int]:
    """Name and size of the vocabulary of a shard's tokens: GPT-2's or Llama 3's."""
    form = _LLAMA3 if tokens.dtype == np.uint32 else _GPT2
    return form.name, form.vocabulary


def check_token_ids(path: Path, vocabulary: tuple[str, int] | None = None) -> str:
    """Read all of a shard; raise UsageError when an id is beyond its vocabulary.

    ``vocabulary``: name and size, if not those of its format. Returns the file's SHA-256.
    """
    tokens = open_token_shard(path)
    name, size = vocabulary or shard_vocabulary(tokens)
    digest = hashlib.sha256()
    with opened(path, "token shard") as file:
        digest.update(file.read(os.fstat(file.fileno()).st_size - tokens.nbytes))
    largest = 0
    for start in range(0, len(tokens), _READ_AT_ONCE):
        part = np.asarray(tokens[start : start + _READ_AT_ONCE])
        digest.update(part.data)
        largest = max(largest, int(part.max()))
    if largest >= size:
        raise UsageError(
            f"{path} is no shard of {name} tokens: it holds the id {largest}, and {name}'s "
            f"vocabulary ends at {size - 1}"
        )
    return digest.hexdigest()


def _peek(path: Path) -> tuple[bytes, int]:
    """The first 12 bytes of a file and its size."""
    with opened(path, "token shard") as file:
        return file.read(12), os.fstat(file.fileno()).st_size


def _map(path: Path, dtype: str, offset: int, count: int) -> TokenArray:
    if not count:
        raise UsageError(f"{path} holds no tokens")
    return np.memmap(path, dtype, "r", offset, (count,))
