"""Token shards: the .bin files of llm.c and nanoGPT.

llm.c: 256 little-endian int32, of which magic, version and the number of tokens are used, then
the tokens (llmc/dataloader.h, dev/data/data_common.py). nanoGPT: bare uint16, no header
(data/openwebtext/prepare.py).
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from steptime.errors import UsageError
from steptime.files import write_atomic
from steptime.train.tokenizer import TokenArray

_HEADER_BYTES = 1024
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


def write_token_shard(path: Path, tokens: TokenArray) -> None:
    """Write tokens ``(T,)`` as an llm.c shard, whole or not at all.

    uint8 and uint16 become GPT-2's format (uint16), uint32 Llama 3's. Raises ValueError for any
    other type, and for more tokens than the header can count (2^31 - 1).
    """
    if tokens.ndim != 1 or tokens.dtype not in (np.uint8, np.uint16, np.uint32):
        raise ValueError(
            f"a shard is 1-D uint8, uint16 or uint32, not {tokens.ndim}-D {tokens.dtype}"
        )
    if len(tokens) > _MOST_TOKENS:
        raise ValueError(f"a shard holds at most {_MOST_TOKENS} tokens, not {len(tokens)}")
    form = _LLAMA3 if tokens.dtype == np.uint32 else _GPT2
    header = np.zeros(_HEADER_BYTES // 4, "<i4")
    header[:3] = form.magic, form.version, len(tokens)
    write_atomic(path, header.tobytes() + tokens.astype(form.dtype).tobytes())


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


def check_token_ids(path: Path) -> None:
    """Read all of a shard; raise UsageError when an id is beyond its vocabulary."""
    tokens = open_token_shard(path)
    name, vocabulary = shard_vocabulary(tokens)
    largest = int(tokens.max())
    if largest >= vocabulary:
        raise UsageError(
            f"{path} is no shard of {name} tokens: it holds the id {largest}, and {name}'s "
            f"vocabulary ends at {vocabulary - 1}"
        )


def _peek(path: Path) -> tuple[bytes, int]:
    """The first 12 bytes of a file and its size."""
    try:
        with path.open("rb") as file:
            return file.read(12), path.stat().st_size
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None


def _map(path: Path, dtype: str, offset: int, count: int) -> TokenArray:
    if not count:
        raise UsageError(f"{path} holds no tokens")
    return np.memmap(path, dtype, "r", offset, (count,))
