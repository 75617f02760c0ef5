"""Tokens: the text to train on, tokenised, and the part of it that is held out."""

import os
import sysconfig
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from steptime.errors import UsageError
from steptime.files import bounded_bytes
from steptime.train.options import DataOptions
from steptime.train.prepared import TRAIN, VALIDATION, check_asked, is_prepared, open_prepared
from steptime.train.shards import open_token_shard, shard_vocabulary
from steptime.train.tokenizer import TokenArray, Tokenizer, make_tokenizer
from steptime.units import format_bytes

_MOST_TEXT = 1 << 34  # bytes
_HELD_OUT = 20  # every 20th document, or the last 20th
_NOT_LIBRARY = frozenset(
    ("test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__")
)


@dataclass(frozen=True, eq=False)
class Tokens:
    """Tokens to train on and tokens held out, each as arrays ``(T,)``; no row crosses arrays.

    Arrays are uint8, uint16 or uint32; those of .bin shards are mapped, not read.
    """

    train: tuple[TokenArray, ...]
    validation: tuple[TokenArray, ...]
    vocabulary: int
    source: str
    """The data and its size, such as "Python standard library, 10.1 MB of text"."""
    tokenizer: Tokenizer | None = None
    """The tokenizer that made the tokens and can decode them; None for .bin shards, also of
    prepared data, whose own ``prepared_tokenizer`` finds."""

    @property
    def description(self) -> str:
        """The source and its tokens: "Python standard library, 10.1 MB of text, byte tokens"."""
        return f"{self.source}, {self.tokenizer.name} tokens" if self.tokenizer else self.source


def load_tokens(options: DataOptions) -> Tokens:
    """The tokens that ``options`` name; the same on every rank that sees the same files.

    Held out are every 20th document, or the last 20th of each where there are fewer than 20
    documents; of .bin shards those with "val" in their names, else the first (as in llm.c), or the
    last 20th of a single one; of prepared data what its index says.

    Raises UsageError, naming the file, when data is missing, empty, unreadable, neither UTF-8 nor a
    sound shard, the tokenizer is not installed, or prepared data has another one.
    """
    try:
        if options.data and is_prepared(options.data):
            return _load_prepared(options.data, options)
        if options.data and (shards := shard_paths(options.data)):
            return _load_shards(options.data, shards)
        return _load_text(options)
    except OSError as error:
        raise UsageError(
            f"cannot read {error.filename or options.data}: {error.strerror}; name a text file, "
            "a folder of text or .bin token shards with --data"
        ) from None


def check_vocabulary(tokens: Tokens, model_vocabulary: int) -> None:
    """Raise UsageError when tokens have ids beyond the model's vocabulary."""
    if tokens.vocabulary > model_vocabulary:
        raise UsageError(
            f"{tokens.description}, are of a vocabulary of {tokens.vocabulary:,}, and the model's "
            f"has {model_vocabulary:,}: choose the tokenizer the model was trained with"
        )


def shard_paths(data: Path | None) -> list[Path]:
    """The .bin token shards that ``data`` is or holds, sorted; none when it is text."""
    if data is None:
        return []
    if data.is_dir():
        return sorted(path for path in data.glob("*.bin") if not path.name.startswith("."))
    return [data] if data.suffix == ".bin" else []


def split_documents(documents: Sequence[str]) -> tuple[list[str], list[str]]:
    """Documents to train on and documents held out, of which none is empty.

    Every 20th document is held out; of fewer than 20 documents, the last 20th of each.
    """
    if len(documents) < _HELD_OUT:
        cuts = [len(text) - len(text) // _HELD_OUT for text in documents]
        train = [text[:cut] for text, cut in zip(documents, cuts, strict=True)]
        held_out = [text[cut:] for text, cut in zip(documents, cuts, strict=True)]
    else:
        middle = _HELD_OUT // 2
        train = [text for i, text in enumerate(documents) if i % _HELD_OUT != middle]
        held_out = list(documents[middle::_HELD_OUT])
    return [text for text in train if text], [text for text in held_out if text]


def _load_text(options: DataOptions) -> Tokens:
    documents = _library() if options.data is None else _texts(options.data)
    name = "Python standard library" if options.data is None else str(options.data)
    if not documents:
        raise UsageError(f"{name} holds no text: name a text file or a folder of text with --data")
    train, held_out = split_documents(documents)
    tokenizer = make_tokenizer(options, train)
    size = sum(len(text.encode()) for text in documents)
    return Tokens(
        train=(_tokenise(train, tokenizer),),
        validation=(_tokenise(held_out, tokenizer),),
        vocabulary=tokenizer.vocabulary,
        source=f"{name}, {format_bytes(size)} of text",
        tokenizer=tokenizer,
    )


def _tokenise(documents: Iterable[str], tokenizer: Tokenizer) -> TokenArray:
    """All documents in one array ``(T,)``, each after an end-of-text token, as in llm.c."""
    return np.concatenate(
        [np.empty(0, tokenizer.dtype), *(tokenizer.encode_all([text]) for text in documents)]
    )


def _load_prepared(data: Path, options: DataOptions) -> Tokens:
    index, tokens = open_prepared(data)
    check_asked(data, index, options)
    count = sum(shard.tokens for shard in index.shards)
    source = f"{data}, {count:,} {index.tokenizer} tokens"
    return Tokens(tokens[TRAIN], tokens[VALIDATION], index.vocabulary, source)


def _load_shards(data: Path, paths: Sequence[Path]) -> Tokens:
    shards = {path: open_token_shard(path) for path in paths}
    kinds = sorted({shard_vocabulary(tokens) for tokens in shards.values()})
    if len(kinds) > 1:
        names = " and ".join(name for name, _ in kinds)
        raise UsageError(f"{data} mixes shards of {names} tokens: keep each kind in its own folder")
    name, vocabulary = kinds[0]
    train, held_out = _split_shards(data, shards)
    count = sum(len(tokens) for tokens in shards.values())
    return Tokens(train, held_out, vocabulary, f"{data}, {count:,} {name} tokens")


def _split_shards(
    data: Path, shards: dict[Path, TokenArray]
) -> tuple[tuple[TokenArray, ...], tuple[TokenArray, ...]]:
    if len(shards) == 1:
        (tokens,) = shards.values()
        cut = len(tokens) - len(tokens) // _HELD_OUT
        return (tokens[:cut],), (tokens[cut:],)
    named = [path for path in shards if "val" in path.name]
    held_out = named or list(shards)[:1]
    train = tuple(tokens for path, tokens in shards.items() if path not in held_out)
    if not train:
        raise UsageError(f"every shard in {data} has val in its name: none is left to train on")
    return train, tuple(shards[path] for path in held_out)


def _library() -> list[str]:
    """The standard library's own sources, sorted by path, without its tests."""
    documents = []
    for path in _files(Path(sysconfig.get_path("stdlib")), without=_NOT_LIBRARY):
        if path.suffix == ".py":
            with suppress(UsageError):
                documents.append(_read_text(path))
    return [text for text in documents if text]


def _texts(data: Path) -> list[str]:
    """The text of a file, or of all files below a folder that are not hidden, sorted by path."""
    if data.is_dir():
        paths = _files(data, without=frozenset())
    elif data.is_file():
        paths = [data]
    else:
        data.stat()  # what is missing or unreachable raises its own OSError
        raise UsageError(f"{data} is neither a file nor a folder: name one with --data")
    return [text for path in paths if (text := _read_text(path))]


def _read_text(path: Path) -> str:
    content = bounded_bytes(path, "text", _MOST_TEXT)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        wrong = error.start
    else:
        wrong = content.find(0)  # as in UTF-16, which may decode as UTF-8 but is not
    if wrong < 0:
        return text
    raise UsageError(
        f"{path} is not UTF-8 text at byte {wrong}: give text, or token shards whose names end in "
        ".bin"
    )


def _files(folder: Path, without: frozenset[str]) -> list[Path]:
    """Regular files below ``folder``, sorted by path, but for hidden and unwanted names."""

    def wanted(name: str) -> bool:
        return not name.startswith(".") and name not in without

    def refuse(error: OSError) -> None:
        raise error

    found = []
    for parent, folders, names in os.walk(folder, onerror=refuse):
        folders[:] = filter(wanted, folders)
        found += [Path(parent, name) for name in filter(wanted, names)]
    return sorted(path for path in found if path.is_file())
