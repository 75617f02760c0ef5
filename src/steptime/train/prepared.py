"""Prepared data: a folder of token shards, and the index that says what they are made of.

``steptime data prepare`` writes such a folder; ``steptime train --data`` reads it.
"""

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from steptime.errors import UsageError
from steptime.files import bounded_text, parsed_json, reading
from steptime.train.options import DataOptions, TokenizerName
from steptime.train.shards import check_token_ids, open_token_shard
from steptime.train.tokenizer import (
    TokenArray,
    Tokenizer,
    byte_tokenizer,
    gpt2_tokenizer,
    stored_bpe,
)

INDEX = "index.json"
UNFINISHED = ".unfinished.json"
"""The index of a preparation under way, with the shards that are finished."""

BYTE_PAIRS = "tokenizer.tiktoken"
TRAIN, VALIDATION = "train", "validation"
VERSION = 1
_MOST_INDEX = 1 << 28  # bytes


@dataclass(frozen=True, order=True)
class Place:
    """Where a block of the sources begins."""

    source: int
    """The number of its file among the sources."""

    block: int
    """How many blocks of that file are before it."""

    at: int
    """The first byte of its unpacked content; of Parquet, the first row."""


@dataclass(frozen=True)
class Source:
    """A file that tokens were made of."""

    path: str
    bytes: int
    modified_ns: int
    """When it was last written, since the epoch: whoever goes on must find the same file."""


@dataclass(frozen=True)
class Shard:
    """A file of tokens, and the span of the sources that it holds a part of."""

    name: str
    tokens: int
    sha256: str
    first: Place
    end: Place
    """Where the next shard of its kind begins."""


@dataclass(frozen=True, kw_only=True)
class Index:
    """What a folder of prepared data holds, and how it was made."""

    version: int = VERSION
    tokenizer: TokenizerName
    vocabulary: int
    end_of_text: int
    tokenizer_sha256: str | None = None
    """Of the file of a trained bpe, which is in the folder."""

    asked_vocabulary: int | None = None
    """Tokens that the bpe was to have; short text yields fewer."""

    field: str
    """The field of JSON Lines and the column of Parquet that holds the text."""

    shard_tokens: int
    held_out: int
    """One in so many documents is held out for validation."""

    ends: bool
    """Of too few documents, the end of each is held out instead."""

    sources: tuple[Source, ...]
    shards: tuple[Shard, ...] = ()

    def of_kind(self, kind: str) -> list[Shard]:
        """The shards of ``TRAIN`` or ``VALIDATION``, in order."""
        return [shard for shard in self.shards if shard.name.startswith(f"{kind}_")]


def is_prepared(folder: Path) -> bool:
    """Whether there is an index, be it unfinished; one without shards is another's, and is text."""
    with suppress(OSError):
        indexed = (folder / INDEX).exists() and any(folder.glob("*.bin"))
        return indexed or (folder / UNFINISHED).exists()
    return False


def read_index(path: Path) -> Index:
    """The index in a file; raises UsageError where it is none, or of another version."""
    text = bounded_text(path, "index of prepared data", _MOST_INDEX)
    with reading(path, "index of prepared data"):
        index = parsed_json(text, Index)
        if index.version != VERSION:
            raise ValueError(f"it is of version {index.version}, and {VERSION} is known here")
        for shard in index.shards:
            if Path(shard.name).name != shard.name:
                raise ValueError(f"the shard {shard.name!r} is not in its folder")
    return index


def open_prepared(folder: Path) -> tuple[Index, dict[str, tuple[TokenArray, ...]]]:
    """The index of a folder and the tokens of each kind of shard, mapped and not read.

    Raises UsageError where the preparation did not finish, or a shard is missing or of another size
    than the index says.
    """
    if not (folder / INDEX).exists():
        raise UsageError(
            f"{folder} is not prepared to its end: give the same steptime data prepare again, "
            "which goes on where it stopped"
        )
    index = read_index(folder / INDEX)
    tokens = {kind: _mapped(folder, index.of_kind(kind)) for kind in (TRAIN, VALIDATION)}
    if not all(tokens.values()):
        raise UsageError(f"{folder} holds no shards to train on, or none held out: prepare it anew")
    return index, tokens


def check_prepared(folder: Path) -> None:
    """Read all shards; raise UsageError where one is not what the index says.

    Reading and hashing take about a second a gigabyte.
    """
    index = read_index(folder / INDEX)
    for shard in index.shards:
        vocabulary = f"{index.tokenizer} in {folder}", index.vocabulary
        if check_token_ids(folder / shard.name, vocabulary) != shard.sha256:
            raise UsageError(
                f"{folder / shard.name} is not the shard that {INDEX} tells of: its SHA-256 is "
                "another; copy or prepare it anew"
            )


def check_asked(folder: Path, index: Index, options: DataOptions) -> None:
    """Raise UsageError where another tokenizer was asked for than that of the prepared data."""
    if options.tokenizer not in (None, index.tokenizer):
        raise UsageError(
            f"{folder} is prepared with --tokenizer {index.tokenizer}, and {options.tokenizer} is "
            "asked for: leave --tokenizer out, or prepare the text anew"
        )
    sizes = (None, index.vocabulary, index.asked_vocabulary)
    if options.vocabulary not in sizes:
        raise UsageError(
            f"{folder} is prepared with a vocabulary of {index.vocabulary:,}, and "
            f"{options.vocabulary:,} is asked for: leave --vocabulary out, or prepare it anew"
        )


def prepared_tokenizer(folder: Path, index: Index) -> Tokenizer:
    """The tokenizer that made the shards, to encode more text or to decode tokens.

    Raises UsageError where its library or its file is missing, or the file is another.
    """
    if index.tokenizer == "byte":
        return byte_tokenizer()
    if index.tokenizer == "gpt2":
        return gpt2_tokenizer()
    return stored_bpe(
        folder / BYTE_PAIRS,
        index.tokenizer_sha256,
        of=f"{INDEX} tells of",
        mend="copy it again, or prepare the text anew in a new folder",
    )


def _mapped(folder: Path, shards: list[Shard]) -> tuple[TokenArray, ...]:
    found = []
    for shard in shards:
        tokens = open_token_shard(folder / shard.name)
        if len(tokens) != shard.tokens:
            raise UsageError(
                f"{folder / shard.name} holds {len(tokens):,} tokens, and {INDEX} tells of "
                f"{shard.tokens:,}: copy or prepare it anew"
            )
        found.append(tokens)
    return tuple(found)
