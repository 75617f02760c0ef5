"""The tokenizer of a preparation: one that needs no text, or byte pairs learnt from a sample."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from steptime.data.documents import HeldOut, documents_of
from steptime.data.sources import blocks_of
from steptime.files import write_atomic
from steptime.train.options import DataOptions
from steptime.train.prepared import BYTE_PAIRS, Index, Place
from steptime.train.tokenizer import (
    Tokenizer,
    bpe_tokenizer,
    byte_pairs_text,
    learn_byte_pairs,
    make_tokenizer,
)

SAMPLE = 1 << 24
"""Characters that byte pairs are learnt from, taken from the begin of each source alike."""

_PIECE = 1 << 16
"""Characters that are given to the learning at once: it takes a hundred bytes for each."""


def new_tokenizer(
    folder: Path, index: Index, options: DataOptions, size: int
) -> tuple[Tokenizer, Index]:
    """The tokenizer for what is to be made, its byte pairs written into the folder; and the index.

    ``size``: bytes of a block. Byte pairs are learnt from text to train on alone.
    """
    digest = None
    if options.tokenizer == "bpe":
        tokens = learn_byte_pairs(_sample(index, size), options.bpe_vocabulary)
        text = byte_pairs_text(tokens).encode()
        write_atomic(folder / BYTE_PAIRS, text)
        digest = hashlib.sha256(text).hexdigest()
        tokenizer = bpe_tokenizer(tokens)
    else:
        tokenizer = make_tokenizer(options, ())
    return tokenizer, replace(
        index,
        vocabulary=tokenizer.vocabulary,
        end_of_text=tokenizer.end_of_text,
        tokenizer_sha256=digest,
    )


def _sample(index: Index, size: int) -> Iterator[str]:
    held_out = HeldOut(index.held_out, index.ends)
    share = max(1, SAMPLE // len(index.sources))
    for number in range(len(index.sources)):
        left = share
        for block in blocks_of(index.sources[: number + 1], index.field, size, Place(number, 0, 0)):
            for text in held_out.split(block, documents_of(block, index.field))[0]:
                part = text[:left]
                yield from (part[at : at + _PIECE] for at in range(0, len(part), _PIECE))
                left -= len(part)
                if left <= 0:
                    break
            if left <= 0:
                break
