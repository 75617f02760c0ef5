"""The text that a model was trained on: its tokenizer, which travels with the weights.

``text.json`` in the folder of a run tells it, beside it the definition of a trained bpe. Weights
from elsewhere have the ``tokenizer.json`` of the library tokenizers, or a vocabulary that says
enough.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from steptime.errors import UsageError
from steptime.files import bounded_text, parsed_json, reading, write_atomic, write_json
from steptime.train.prepared import (
    BYTE_PAIRS,
    INDEX,
    is_prepared,
    prepared_tokenizer,
    read_index,
)
from steptime.train.tokenizer import (
    Tokenizer,
    byte_tokenizer,
    gpt2_tokenizer,
    stored_bpe,
)

if TYPE_CHECKING:
    from steptime.train.tokens import Tokens
    from steptime.workloads.models import Transformer

TEXT = "text.json"
_DEFINITION = "tokenizer.json"
_CONFIG = "config.json"
_MOST_BYTES = 1 << 28
_GPT2_VOCABULARY, _BYTES = 50257, 256
_UNFINISHED = "\N{REPLACEMENT CHARACTER}"
_REMEMBERED = 4  # tokens before a piece that its text may depend on, as a blank at the start does


@dataclass(frozen=True)
class _Kept:
    """What ``text.json`` holds: the tokenizer, and ``row``, tokens a row in training.

    ``tokenizer`` is None of token shards whose tokenizer nobody told; ``sha256`` is that of the
    file which defines a trained one.
    """

    tokenizer: str | None
    vocabulary: int
    row: int
    sha256: str | None


@dataclass(frozen=True)
class _Ends:
    """What a config.json tells of the tokens before and after a text."""

    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None


@dataclass(frozen=True)
class Text:
    """How text becomes tokens of a model and back.

    ``begin``: the token before a text, ``ends``: those after one. ``row``: tokens a row that the
    model was trained on, where it is known.
    """

    tokenizer: str
    vocabulary: int
    encode: Callable[[str], Iterable[int]]
    decode: Callable[[Sequence[int]], str]
    begin: int | None
    ends: frozenset[int]
    row: int | None = None

    def encoded(self, text: str) -> list[int]:
        """The tokens of a text, without that before it; UsageError where it is no text."""
        try:
            text.encode()  # some tokenizers would put another character there
        except UnicodeEncodeError:
            raise UsageError("the prompt is no text: it holds bytes that are not UTF-8") from None
        return [int(one) for one in self.encode(text)]

    def pieces(self, before: Sequence[int], tokens: Iterable[int]) -> Iterator[str]:
        """The text of ``tokens`` as they come, which go on from ``before``.

        A piece ends with a whole character; a byte that belongs to none becomes U+FFFD with the
        first character after it, or at the end.
        """
        ids, read = list(before), len(before)
        begin = max(0, read - _REMEMBERED)
        for token in tokens:
            ids.append(token)
            new = self._after(ids[begin:], read - begin)
            if new and not new.endswith(_UNFINISHED):
                yield new
                begin, read = read, len(ids)
        if rest := self._after(ids[begin:], read - begin):
            yield rest

    def _after(self, ids: Sequence[int], known: int) -> str:
        return self.decode(ids)[len(self.decode(ids[:known])) :]


def keep_text(folder: Path, data: Path | None, tokens: Tokens, row: int) -> None:
    """Write what ``read_text`` needs of the tokens that a model is trained on, ``row`` a row.

    ``data``: where they are from. Raises OSError when that cannot be written.
    """
    tokenizer = tokens.tokenizer
    if data and is_prepared(data):
        tokenizer = prepared_tokenizer(data, read_index(data / INDEX))
    name = tokenizer.name if tokenizer else None
    if tokenizer is None and tokens.vocabulary == _GPT2_VOCABULARY:
        name = "GPT-2"  # the shards of llm.c and nanoGPT have no other
    definition = tokenizer.definition.encode() if tokenizer else b""
    if definition:
        write_atomic(folder / BYTE_PAIRS, definition)
    digest = hashlib.sha256(definition).hexdigest() if definition else None
    write_json(folder / TEXT, asdict(_Kept(name, tokens.vocabulary, row, digest)))


def copy_text(folders: Iterable[Path], to: Path) -> list[Path]:
    """Copy what ``keep_text`` left in one of the folders to another; the files written."""
    source = _kept_in(folders)
    if source is None:
        return []
    names = [name for name in (TEXT, BYTE_PAIRS) if (source / name).is_file()]
    for name in names:
        text = bounded_text(source / name, "tokenizer", _MOST_BYTES)
        write_atomic(to / name, text.encode())
    return [to / name for name in names]


def read_text(folders: Sequence[Path], model: Transformer) -> Text:
    """How text becomes tokens of a model whose weights lie in the first of the ``folders``.

    Raises UsageError where nothing tells it, a library or GPT-2's vocabulary is missing, or a file
    is damaged or another than it was.
    """
    if source := _kept_in(folders):
        return _own_text(source)
    if (folders[0] / _DEFINITION).is_file():
        return _foreign_text(folders[0])
    if model.vocabulary == _GPT2_VOCABULARY:
        return _of_documents(gpt2_tokenizer())
    if model.vocabulary == _BYTES:
        return _of_documents(byte_tokenizer())
    raise UsageError(
        f"nothing in {folders[0]} tells the tokenizer of its {model.vocabulary:,} tokens: copy the "
        f"model's {_DEFINITION} there"
    )


def _kept_in(folders: Iterable[Path]) -> Path | None:
    return next((folder for folder in folders if (folder / TEXT).is_file()), None)


def _of_documents(tokenizer: Tokenizer, row: int | None = None) -> Text:
    """Text as we train on it: every document after an end-of-text token."""
    return Text(
        tokenizer.name,
        tokenizer.vocabulary,
        lambda text: tokenizer.encode(text).tolist(),
        lambda ids: tokenizer.decode(np.array(ids, np.int64)),
        begin=tokenizer.end_of_text,
        ends=frozenset([tokenizer.end_of_text]),
        row=row,
    )


def _own_text(folder: Path) -> Text:
    path = folder / TEXT
    with reading(path, "description of a text"):
        kept = parsed_json(bounded_text(path, "description of a text"), _Kept)
    if kept.tokenizer == "byte":
        return _of_documents(byte_tokenizer(), kept.row)
    if kept.tokenizer == "GPT-2":
        return _of_documents(gpt2_tokenizer(), kept.row)
    if kept.tokenizer != "bpe":
        raise UsageError(
            f"the model in {folder} was trained on token shards of {kept.vocabulary:,} tokens, and "
            "nothing tells their tokenizer: train on text, or on shards of GPT-2's tokens"
        )
    made = stored_bpe(
        folder / BYTE_PAIRS,
        kept.sha256,
        of="the model was trained with",
        mend="copy it from the run again",
    )
    return _of_documents(made, kept.row)


def _foreign_text(folder: Path) -> Text:
    """By Hugging Face's tokenizer.json; config.json tells what is before a text and after it."""
    try:
        tokenizers = import_module("tokenizers")
    except ImportError:
        raise UsageError(
            f"{folder / _DEFINITION} needs the library tokenizers: pip install 'steptime[bpe]'"
        ) from None
    path = folder / _DEFINITION
    with reading(path, "tokenizer"):
        model = tokenizers.Tokenizer.from_str(bounded_text(path, "tokenizer", _MOST_BYTES))
    ends = _Ends()
    if (folder / _CONFIG).is_file():
        with reading(folder / _CONFIG, "model file"):
            ends = parsed_json(bounded_text(folder / _CONFIG, "model file"), _Ends)
    after = ends.eos_token_id
    return Text(
        path.name,
        model.get_vocab_size(),
        lambda text: model.encode(text, add_special_tokens=False).ids,
        lambda ids: str(model.decode(list(ids))),
        begin=ends.bos_token_id,
        ends=frozenset(after if isinstance(after, list) else [] if after is None else [after]),
    )
