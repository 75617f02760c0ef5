"""The documents of a block, and which of them are held out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from steptime.data.sources import END_OF_DOCUMENT, Block
from steptime.errors import UsageError


@dataclass(frozen=True)
class HeldOut:
    """Which documents are held out for validation."""

    every: int
    """One in so many."""

    ends: bool
    """Of too few documents, the end of each instead: the last 20th where ``every`` is 20."""

    def split(self, block: Block, documents: Sequence[str]) -> tuple[list[str], list[str]]:
        """The documents of ``block`` to train on, and those held out; none is empty.

        Which are held out depends on nothing but their place, so blocks need not be read in order.
        """
        if self.ends:
            cuts = [len(text) - len(text) // self.every for text in documents]
            train = [text[:cut] for text, cut in zip(documents, cuts, strict=True)]
            held_out = [text[cut:] for text, cut in zip(documents, cuts, strict=True)]
            return train, [text for text in held_out if text]
        # Blocks may hold one document or thousands, and so may sources.
        first = (self.every // 2 - block.place.source - block.place.block) % self.every
        held_out = list(documents[first :: self.every])
        train = [text for i, text in enumerate(documents) if (i - first) % self.every]
        return train, held_out


def documents_of(block: Block, field: str) -> list[str]:
    """The documents of a block that are not empty.

    Raises UsageError, saying where, for what is not UTF-8 or no JSON with a text in ``field``.
    """
    if isinstance(block.content, tuple):
        documents = list(block.content)
    elif block.lines:
        documents = _rows(block, block.content, field)
    else:
        documents = _texts(block, block.content)
    if any("\0" in text for text in documents):
        raise UsageError(
            f"{block.path} is no text: a NUL character stands behind {_place(block, 0)}; unpack or "
            "convert the file first"
        )
    return [text for text in documents if text]


def _texts(block: Block, content: bytes) -> list[str]:
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{block.path} is not UTF-8 text at {_place(block, error.start)}: unpack or convert it "
            "first"
        ) from None
    documents = text.split(END_OF_DOCUMENT.decode())
    if len(documents) > 1:
        return [one.strip("\n") for one in documents]  # a separator stands on a line of its own
    return documents


def _rows(block: Block, content: bytes, field: str) -> list[str]:
    import msgspec

    row: Any = msgspec.defstruct("Row", [("text", str)], rename={"text": field})
    decoder = msgspec.json.Decoder(row)
    documents, start = [], 0
    try:
        for line in content.split(b"\n"):
            if line and not line.isspace():
                documents.append(decoder.decode(line).text)
            start += len(line) + 1
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{block.path}, the line at {_place(block, start)}: no JSON with a text in the field "
            f"{field!r} ({error}); mend the line, or choose another --field"
        ) from None
    return documents


def _place(block: Block, offset: int) -> str:
    if isinstance(block.content, tuple):
        return f"row {block.place.at + offset:,}"
    return f"byte {block.place.at + offset:,}"
