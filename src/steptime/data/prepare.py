"""Preparing data: sources in, shards of tokens and their index out.

Threads encode blocks while this one reads the next and writes what is done, strictly in order: the
shards are the same for any number of threads. A shard that is whole is kept with its hash in an
unfinished index, so what was killed goes on behind it, to the same bytes.
"""

import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeAlias

from steptime.data.documents import HeldOut, documents_of
from steptime.data.folder import begun, clear, finish, keep, locked, whole_shards
from steptime.data.options import PrepareOptions
from steptime.data.sources import BLOCK, Block, blocks_of, find_sources
from steptime.data.vocabulary import new_tokenizer
from steptime.errors import SteptimeError, UsageError
from steptime.runs.run_folder import created
from steptime.train.prepared import (
    INDEX,
    TRAIN,
    VALIDATION,
    Index,
    Place,
    Shard,
    prepared_tokenizer,
)
from steptime.train.shards import write_token_shard
from steptime.train.tokenizer import TokenArray, Tokenizer, check_tokenizer
from steptime.units import format_bytes, format_seconds

Encoded: TypeAlias = tuple[TokenArray, TokenArray]
"""A block's tokens to train on, and those held out."""

_MOST_WAITING = 48 << 20
"""Bytes of text that are read and not yet encoded, which takes up to twelve times as many."""


@dataclass(frozen=True)
class Progress:
    """How far a preparation is."""

    done_bytes: int
    """Bytes of the sources, packed as they are."""

    total_bytes: int
    new_bytes: int
    """Those of them that this run read itself: a run before may have done the others."""

    new_tokens: int
    seconds: float
    """Since this run began to read."""

    @property
    def tokens_per_s(self) -> float:
        """Tokens a second, of this run."""
        return self.new_tokens / self.seconds if self.seconds else 0.0

    @property
    def remaining_s(self) -> float | None:
        """Seconds that the rest takes at this rate; None before anything is done."""
        if not self.new_bytes:
            return None
        return self.seconds * (self.total_bytes - self.done_bytes) / self.new_bytes


@dataclass(frozen=True, repr=False)
class Prepared:
    """A folder of shards and their index, and what this run did for them."""

    folder: Path
    index: Index
    progress: Progress

    @property
    def train_tokens(self) -> int:
        """Tokens to train on."""
        return sum(shard.tokens for shard in self.index.of_kind(TRAIN))

    @property
    def validation_tokens(self) -> int:
        """Tokens held out."""
        return sum(shard.tokens for shard in self.index.of_kind(VALIDATION))

    def json(self) -> dict[str, Any]:
        """The figures, as --json prints them."""
        return {
            "verb": "data",
            "source": "measured",
            "folder": str(self.folder),
            "tokenizer": self.index.tokenizer,
            "vocabulary": self.index.vocabulary,
            "train_tokens": self.train_tokens,
            "validation_tokens": self.validation_tokens,
            "shards": [shard.name for shard in self.index.shards],
            "new_tokens": self.progress.new_tokens,
            "seconds": self.progress.seconds,
            "tokens_per_s": self.progress.tokens_per_s,
        }

    def __repr__(self) -> str:
        index, now = self.index, self.progress
        files = f"{len(index.sources):,} file{'s' * (len(index.sources) > 1)}"
        size = format_bytes(sum(source.bytes for source in index.sources))
        done = (
            f"{now.new_tokens:>15,} of them now, in {format_seconds(now.seconds)}: "
            f"{now.tokens_per_s / 1e6:.2f} million a second"
        )
        lines = (
            f"{files}, {size}; {index.tokenizer} of {index.vocabulary:,} tokens",
            f"{self.train_tokens:>15,} tokens to train on in {_shards(index, TRAIN)}",
            f"{self.validation_tokens:>15,} tokens held out in {_shards(index, VALIDATION)}",
            done if now.new_tokens else "all of them were here already",
        )
        return "\n".join(lines)


def _shards(index: Index, kind: str) -> str:
    count = len(index.of_kind(kind))
    return f"{count:,} shard{'s' * (count > 1)}"


def prepare(
    sources: Sequence[Path],
    out: Path,
    options: PrepareOptions,
    tell: Callable[[Progress], None] = lambda _: None,
) -> Prepared:
    """Make shards of tokens and their index of ``sources`` in the folder ``out``.

    Whatever was begun there of the same sources with the same options is finished; ``tell`` hears
    of every block. Memory: below 1 GB, of which the tokens of a shard take their part.

    Raises UsageError for sources that cannot be read, are no text, or hold none, and for a folder
    that holds something else; SteptimeError where it cannot be written to.
    """
    check_tokenizer(options.tokens)
    found = tuple(find_sources(sources))
    asked = Index(
        tokenizer=options.tokenizer,
        vocabulary=0,
        end_of_text=0,
        asked_vocabulary=options.tokens.bpe_vocabulary if options.tokenizer == "bpe" else None,
        field=options.field,
        shard_tokens=options.shard_tokens,
        held_out=options.held_out,
        ends=False,
        sources=found,
    )
    try:
        with created(out), locked(out):
            return _prepared(out, asked, options, tell)
    except OSError as error:
        raise SteptimeError(
            f"cannot write to {out}: {error.strerror}; once that is mended, the same command goes "
            "on behind the last whole shard"
        ) from None


def _prepared(
    out: Path, asked: Index, options: PrepareOptions, tell: Callable[[Progress], None]
) -> Prepared:
    # Of no block has the shard less room than the block's tokens: one a byte, one a document.
    size = min(BLOCK, options.shard_tokens // 2)
    index = begun(out, asked)
    if index is None:
        index = replace(asked, ends=not _holds_out(asked, size))
        tokenizer, index = new_tokenizer(out, index, options.tokens, size)
    else:
        tokenizer = prepared_tokenizer(out, index)
        whole = whole_shards(out, index)
        if whole == index.shards and (out / INDEX).exists():
            return Prepared(out, index, Progress(0, 0, 0, 0, 0.0))
        index = replace(index, shards=whole)
    keep(out, index)
    clear(out)
    jobs = options.jobs or len(os.sched_getaffinity(0))
    index, progress = _filled(out, index, tokenizer, size, jobs, tell)
    if not index.of_kind(TRAIN):
        raise UsageError(
            f"{index.sources[0].path} and its like hold no text: their documents are empty"
        )
    finish(out, index)
    return Prepared(out, index, progress)


def _filled(
    out: Path,
    index: Index,
    tokenizer: Tokenizer,
    size: int,
    jobs: int,
    tell: Callable[[Progress], None],
) -> tuple[Index, Progress]:
    """Write the shards that the index lacks; the whole index, and how it went."""
    held_out = HeldOut(index.held_out, index.ends)

    def encode(block: Block) -> Encoded:
        train, rest = held_out.split(block, documents_of(block, index.field))
        return tokenizer.encode_all(train), tokenizer.encode_all(rest)

    begin = index.shards[-1].end if index.shards else Place(0, 0, 0)
    part = _Part(begin)
    meter = _Meter(index)
    blocks = blocks_of(index.sources, index.field, size, begin)
    with closing(_in_order(blocks, encode, jobs)) as encoded:
        for block, tokens in encoded:
            if not part.has_room(tokens, index.shard_tokens):
                index = part.written(out, index, block.place)
                part = _Part(block.place)
            part.add(tokens)
            tell(meter.after(block, tokens))
    index = part.written(out, index, Place(len(index.sources), 0, 0))
    return index, meter.progress


def _in_order(
    blocks: Iterator[Block], encode: Callable[[Block], Encoded], jobs: int
) -> Generator[tuple[Block, Encoded]]:
    """Every block with its tokens, in order; encoded by ``jobs`` threads, a few blocks ahead."""
    waiting: deque[tuple[Block, Future[Encoded]]] = deque()
    size = 0
    pool = ThreadPoolExecutor(jobs, "encode")
    try:
        for block in blocks:
            size += block.size
            while waiting and (len(waiting) > 2 * jobs or size > _MOST_WAITING):
                size -= waiting[0][0].size
                yield _first(waiting)
            waiting.append((block, pool.submit(encode, block)))
        while waiting:
            yield _first(waiting)
    finally:
        pool.shutdown(cancel_futures=True)


def _first(waiting: deque[tuple[Block, Future[Encoded]]]) -> tuple[Block, Encoded]:
    block, tokens = waiting.popleft()
    return block, tokens.result()


@dataclass
class _Part:
    """The tokens of one shard to train on and of the one that is held out beside it."""

    first: Place
    tokens: tuple[list[TokenArray], list[TokenArray]] = field(default_factory=lambda: ([], []))
    counts: tuple[int, int] = (0, 0)

    def has_room(self, encoded: Encoded, most: int) -> bool:
        """Whether both shards stay within ``most`` tokens; an empty one takes any block."""
        both = zip(self.counts, encoded, strict=True)
        return all(not count or count + len(more) <= most for count, more in both)

    def add(self, encoded: Encoded) -> None:
        """Put a block's tokens behind those that are here."""
        for parts, more in zip(self.tokens, encoded, strict=True):
            if len(more):
                parts.append(more)
        self.counts = (self.counts[0] + len(encoded[0]), self.counts[1] + len(encoded[1]))

    def written(self, out: Path, index: Index, end: Place) -> Index:
        """Write the shards; the index with them, kept beside them."""
        kinds = (TRAIN, VALIDATION)
        for kind, parts, count in zip(kinds, self.tokens, self.counts, strict=True):
            if parts:
                name = f"{kind}_{len(index.of_kind(kind)):06}.bin"
                digest = write_token_shard(out / name, *parts)
                shard = Shard(name, count, digest, self.first, end)
                index = replace(index, shards=(*index.shards, shard))
        keep(out, index)
        return index


class _Meter:
    """How far a preparation is, block by block."""

    def __init__(self, index: Index) -> None:
        self._before = list(accumulate((source.bytes for source in index.sources), initial=0))
        self._start = time.perf_counter()
        self._first: int | None = None
        self.progress = Progress(0, self._before[-1], 0, 0, 0.0)

    def after(self, block: Block, tokens: Encoded) -> Progress:
        done = self._before[block.place.source] + block.read
        self._first = done if self._first is None else self._first
        self.progress = Progress(
            done_bytes=done,
            total_bytes=self._before[-1],
            new_bytes=done - self._first,
            new_tokens=self.progress.new_tokens + sum(map(len, tokens)),
            seconds=time.perf_counter() - self._start,
        )
        return self.progress


def _holds_out(index: Index, size: int) -> bool:
    """Whether there are enough documents to hold out whole ones."""
    held_out = HeldOut(index.held_out, ends=False)
    blocks = blocks_of(index.sources, index.field, size)
    return any(held_out.split(block, documents_of(block, index.field))[1] for block in blocks)
