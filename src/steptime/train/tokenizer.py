"""Text to token ids and back: bytes, byte pairs learnt from the text itself, or GPT-2's own.

Byte pairs are learnt with tokenizers and applied with tiktoken, which is several times faster and
lets go of Python's lock meanwhile, so that threads encode on all cores.
"""

import base64
import binascii
import hashlib
import importlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steptime.errors import UsageError
from steptime.files import bounded_bytes, reading
from steptime.train.options import DataOptions

TokenArray: TypeAlias = NDArray[np.unsignedinteger[Any]]

_END_OF_TEXT = "<|endoftext|>"
_SMALLEST_BPE = 257  # every byte, and the end of a text
_BLOCK = 1 << 20  # characters that byte pairs are learnt from at once
_WORDS = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
"""GPT-2's split into words, as tiktoken writes it: no pair of bytes is joined across words."""

_MOST_BYTES = 1 << 24  # of a file of the vocabulary
_MOST_BYTE_PAIRS = 1 << 28
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
    encode_all: Callable[[Sequence[str]], TokenArray]
    """Documents to ids ``(T,)``, each after ``end_of_text``; threads may call it at once."""
    definition: str = ""
    """Of a trained one, the text that ``parse_byte_pairs`` makes its tokens of."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The smallest unsigned type that holds the vocabulary."""
        return np.min_scalar_type(self.vocabulary - 1)


def make_tokenizer(options: DataOptions, documents: Iterable[str]) -> Tokenizer:
    """The tokenizer that ``options`` name; a bpe learns from ``documents``."""
    if options.tokenizer == "bpe":
        return train_bpe(documents, options.bpe_vocabulary)
    return gpt2_tokenizer() if options.tokenizer == "gpt2" else byte_tokenizer()


def check_tokenizer(options: DataOptions) -> None:
    """Raise UsageError when the tokenizer's library is missing or its vocabulary too small."""
    if options.tokenizer == "bpe":
        _check_bpe_vocabulary(options.bpe_vocabulary)
        _import("tokenizers")
        _import("tiktoken")
    elif options.tokenizer == "gpt2":
        _import("tiktoken")
        _check_gpt2_files()


def byte_tokenizer() -> Tokenizer:
    """One token a byte of UTF-8: 256 tokens; 0, which is in no text, comes before documents."""

    def encode(text: str) -> TokenArray:
        return np.frombuffer(text.encode(), np.uint8)

    return Tokenizer(
        name="byte",
        vocabulary=256,
        end_of_text=0,
        encode=encode,
        decode=lambda ids: np.asarray(ids, np.uint8).tobytes().decode(errors="replace"),
        encode_all=lambda documents: encode("".join(f"\0{text}" for text in documents)),
    )


def train_bpe(documents: Iterable[str], vocabulary: int) -> Tokenizer:
    """A byte-level byte-pair encoding learnt from ``documents``; see ``learn_byte_pairs``."""
    return bpe_tokenizer(learn_byte_pairs(documents, vocabulary))


def learn_byte_pairs(documents: Iterable[str], vocabulary: int) -> list[bytes]:
    """The tokens of a byte-level byte-pair encoding learnt from ``documents``; deterministic.

    A token's place is its id: the 256 bytes, then pairs in the order in which they are joined, the
    most frequent first. ``vocabulary`` counts these and the end of a text; short text yields fewer.
    The split into words and the byte alphabet are GPT-2's (Radford et al. 2019, section 2.2).

    Raises UsageError when ``vocabulary`` is below 257 or tokenizers is not installed.
    """
    _check_bpe_vocabulary(vocabulary)
    tokenizers = _import("tokenizers")
    # Each rank learns on its own: threads of all of them would compete for the same cores.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    model = tokenizers.Tokenizer(tokenizers.models.BPE())
    model.pre_tokenizer = byte_level(add_prefix_space=False)
    model.train_from_iterator(
        (block for text in documents for block in _blocks(text)),
        tokenizers.trainers.BpeTrainer(
            vocab_size=vocabulary - 1,
            initial_alphabet=sorted(byte_level.alphabet()),
            show_progress=False,
        ),
    )
    byte_of = _byte_alphabet()
    ids = model.get_vocab()
    learnt = (bytes(byte_of[one] for one in token) for token in sorted(ids, key=ids.__getitem__))
    return [*(bytes([byte]) for byte in range(256)), *(token for token in learnt if len(token) > 1)]


def bpe_tokenizer(tokens: Sequence[bytes]) -> Tokenizer:
    """The byte-pair encoding of these tokens; the end of a text is one more, the last.

    Raises UsageError when tiktoken is not installed.
    """
    encoding = _import("tiktoken").Encoding(
        "bpe",
        pat_str=_WORDS,
        mergeable_ranks={token: place for place, token in enumerate(tokens)},
        special_tokens={_END_OF_TEXT: len(tokens)},
    )
    return replace(_with_tiktoken("bpe", encoding), definition=byte_pairs_text(tokens))


def gpt2_tokenizer() -> Tokenizer:
    """GPT-2's own 50,257 tokens through tiktoken, from tiktoken's cache and never the network.

    Raises UsageError when tiktoken is not installed or its cache lacks GPT-2's vocabulary.
    """
    tiktoken = _import("tiktoken")
    _check_gpt2_files()
    return _with_tiktoken("GPT-2", tiktoken.get_encoding("gpt2"))


def byte_pairs_text(tokens: Sequence[bytes]) -> str:
    """Tokens as tiktoken's files have them: on each line a token in base64, and its id."""
    lines = (f"{base64.b64encode(token).decode()} {place}" for place, token in enumerate(tokens))
    return "".join(f"{line}\n" for line in lines)


def stored_bpe(path: Path, sha256: str | None, *, of: str, mend: str) -> Tokenizer:
    """The byte-pair encoding of a file, whose text has that hash.

    Raises UsageError where it cannot be read, or is not that which ``of`` says: then ``mend``.
    """
    text = bounded_bytes(path, "tokenizer", _MOST_BYTE_PAIRS)
    if hashlib.sha256(text).hexdigest() != sha256:
        raise UsageError(f"{path} is not the tokenizer that {of}: its SHA-256 is another; {mend}")
    with reading(path, "tokenizer"):
        return bpe_tokenizer(parse_byte_pairs(text.decode()))


def parse_byte_pairs(text: str) -> list[bytes]:
    """The tokens that ``byte_pairs_text`` wrote; ValueError, for ``reading``, where it did not."""
    tokens = []
    for place, line in enumerate(text.splitlines()):
        token, _, number = line.partition(" ")
        if number != str(place):
            raise ValueError(f"line {place + 1} is no token and the id {place}")
        try:
            tokens.append(base64.b64decode(token, validate=True))
        except binascii.Error:
            raise ValueError(f"line {place + 1} is no base64") from None
    if len(set(tokens)) < len(tokens) or not {bytes([byte]) for byte in range(256)} <= set(tokens):
        raise ValueError("it lacks a byte, or has a token twice")
    return tokens


def _with_tiktoken(name: str, encoding: Any) -> Tokenizer:
    vocabulary, end_of_text = encoding.n_vocab, encoding.eot_token
    dtype = np.min_scalar_type(vocabulary - 1)

    def encode(text: str) -> TokenArray:
        try:
            ids: TokenArray = encoding.encode_to_numpy(text, disallowed_special=())
        except ValueError:  # some million blanks in a row are too many for its split into words
            middle = len(text) // 2
            return np.concatenate([encode(text[:middle]), encode(text[middle:])])
        return ids.astype(dtype)

    def encode_all(documents: Sequence[str]) -> TokenArray:
        text = "".join(f"{_END_OF_TEXT}{document}" for document in documents)
        if text.count(_END_OF_TEXT) == len(documents):  # one call: Python's lock is let go for long
            with suppress(ValueError):
                ids: TokenArray = encoding.encode_to_numpy(text, allowed_special={_END_OF_TEXT})
                return ids.astype(dtype)
        end = np.array([end_of_text], dtype)
        return np.concatenate([end[:0], *(p for text in documents for p in (end, encode(text)))])

    def decode(ids: ArrayLike) -> str:
        text: str = encoding.decode(np.asarray(ids).tolist())
        return text

    return Tokenizer(name, vocabulary, end_of_text, encode, decode, encode_all)


def _byte_alphabet() -> dict[str, int]:
    """The byte of each character by which a byte-level encoding writes it (GPT-2's encoder.py)."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {chr(256 + i): b for i, b in enumerate(hidden)}


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
            content = bounded_bytes(folder / key, name, _MOST_BYTES)
            whole = hashlib.sha256(content).hexdigest() == sha256
        except UsageError:
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
