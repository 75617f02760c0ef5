"""Text to token ids and back: bytes, byte pairs learnt from the text itself, or GPT-2's own."""

import hashlib
import importlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steptime.errors import UsageError
from steptime.train.options import DataOptions

TokenArray: TypeAlias = NDArray[np.unsignedinteger[Any]]

_END_OF_TEXT = "<|endoftext|>"
_SMALLEST_BPE = 257  # every byte, and the end of a text
_BLOCK = 1 << 20  # characters; tokenizers keeps some 300 bytes a token of what it encodes at once

_GPT2_URL = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/"
_GPT2_SHA256 = {
    "vocab.bpe": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
    "encoder.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
}


@dataclass(frozen=True)
class Tokenizer:
    """A vocabulary, with functions from text to its ids and back."""

    name: str
    vocabulary: int
    """Number of tokens, ``end_of_text`` among them."""
    end_of_text: int
    """The token before each document; no text encodes to it."""
    encode: Callable[[str], TokenArray]
    """Text to ids ``(T,)`` of the smallest unsigned type that holds the vocabulary."""
    decode: Callable[[ArrayLike], str]
    """Ids ``(T,)`` to text; bytes that are not UTF-8 become U+FFFD."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest unsigned type that holds the vocabulary."""
        return np.min_scalar_type(self.vocabulary - 1)


def make_tokenizer(options: DataOptions, documents: Iterable[str]) -> Tokenizer:
    """The tokenizer that ``options`` name; a bpe learns from ``documents``."""
    if options.tokenizer == "bpe":
        return train_bpe(documents, options.vocabulary)
    return gpt2_tokenizer() if options.tokenizer == "gpt2" else byte_tokenizer()


def check_tokenizer(options: DataOptions) -> None:
    """Raise UsageError when the tokenizer's library is missing or its vocabulary too small."""
    if options.tokenizer == "bpe":
        _check_bpe_vocabulary(options.vocabulary)
        _import("tokenizers")
    elif options.tokenizer == "gpt2":
        _import("tiktoken")
        _check_gpt2_files()


def byte_tokenizer() -> Tokenizer:
    """One token a byte of UTF-8: 256 tokens; 0, which is in no text, comes before documents."""
    return Tokenizer(
        name="byte",
        vocabulary=256,
        end_of_text=0,
        encode=lambda text: np.frombuffer(text.encode(), np.uint8),
        decode=lambda ids: np.asarray(ids, np.uint8).tobytes().decode(errors="replace"),
    )


def train_bpe(documents: Iterable[str], vocabulary: int) -> Tokenizer:
    """A byte-level byte-pair encoding learnt from ``documents``; deterministic.

    ``vocabulary`` counts the 256 bytes and the end of a text; short text yields fewer tokens. The
    split into words and the byte alphabet are GPT-2's (Radford et al. 2019, section 2.2).

    Raises UsageError when ``vocabulary`` is below 257 or tokenizers is not installed.
    """
    _check_bpe_vocabulary(vocabulary)
    tokenizers = _import("tokenizers")
    # Each rank encodes on its own: threads of all of them would compete for the same cores.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = byte_level(add_prefix_space=False)
    model.decoder = tokenizers.decoders.ByteLevel()
    model.train_from_iterator(
        (block for text in documents for block in _blocks(text)),
        tokenizers.trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=[_END_OF_TEXT],
            initial_alphabet=sorted(byte_level.alphabet()),
            show_progress=False,
        ),
    )
    model.encode_special_tokens = True  # a text that spells out the end of a text does not end
    size = model.get_vocab_size()
    dtype = np.min_scalar_type(size - 1)

    def encode(text: str) -> TokenArray:
        blocks = (model.encode_batch_fast([block])[0].ids for block in _blocks(text))
        return np.concatenate([np.empty(0, dtype), *(np.array(ids, dtype) for ids in blocks)])

    def decode(ids: ArrayLike) -> str:
        text: str = model.decode(np.asarray(ids).tolist(), skip_special_tokens=False)
        return text

    return Tokenizer("bpe", size, model.token_to_id(_END_OF_TEXT), encode, decode)


def gpt2_tokenizer() -> Tokenizer:
    """GPT-2's own 50,257 tokens through tiktoken, from tiktoken's cache and never the network.

    Raises UsageError when tiktoken is not installed or its cache lacks GPT-2's vocabulary.
    """
    tiktoken = _import("tiktoken")
    _check_gpt2_files()
    encoding = tiktoken.get_encoding("gpt2")

    def encode(text: str) -> TokenArray:
        ids: NDArray[np.uint32] = encoding.encode_to_numpy(text, disallowed_special=())
        return ids.astype(np.uint16)

    def decode(ids: ArrayLike) -> str:
        text: str = encoding.decode(np.asarray(ids).tolist())
        return text

    return Tokenizer("GPT-2", encoding.n_vocab, encoding.eot_token, encode, decode)


def _blocks(text: str) -> Iterator[str]:
    """The text in pieces of about a million characters, each ending with a line."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + _BLOCK) + 1 or len(text)
        yield text[start:end]
        start = end


def _check_bpe_vocabulary(vocabulary: int) -> None:
    if vocabulary < _SMALLEST_BPE:
        raise UsageError(
            f"--vocabulary is {vocabulary}: a bpe needs at least {_SMALLEST_BPE}, "
            "one token a byte and one for the end of a text"
        )


def _check_gpt2_files() -> None:
    """Refuse to download: raise where files are missing in tiktoken's cache, or damaged."""
    folder = _tiktoken_cache()
    lacking = {}
    for name, sha256 in _GPT2_SHA256.items():
        key = hashlib.sha1((_GPT2_URL + name).encode(), usedforsecurity=False).hexdigest()
        try:
            whole = hashlib.sha256((folder / key).read_bytes()).hexdigest() == sha256
        except OSError:
            whole = False
        if not whole:
            lacking[_GPT2_URL + name] = folder / key
    if lacking:
        mend = " and ".join(f"{url} as {path}" for url, path in lacking.items())
        raise UsageError(
            "GPT-2's vocabulary is not in tiktoken's cache, and nothing is downloaded here: save "
            f"{mend}, or set TIKTOKEN_CACHE_DIR to a folder that holds it under these names"
        )


def _tiktoken_cache() -> Path:
    """The folder of tiktoken's cache (tiktoken/load.py, read_file_cached).

    Raises UsageError where the environment disables it.
    """
    default = str(Path(tempfile.gettempdir()) / "data-gym-cache")
    name = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR", default))
    if not name:
        raise UsageError(
            "tiktoken's cache is switched off and nothing is downloaded here: set "
            "TIKTOKEN_CACHE_DIR to a folder that holds GPT-2's vocabulary"
        )
    return Path(name)


def _import(library: str) -> Any:
    try:
        return importlib.import_module(library)
    except ImportError:
        raise UsageError(
            f"this tokenizer needs the library {library}: pip install 'steptime[bpe]'"
        ) from None
