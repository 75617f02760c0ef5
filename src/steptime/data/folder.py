"""The folder of a preparation: whose it is, and what of it is whole already."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields, replace
from pathlib import Path

from steptime.errors import UsageError
from steptime.files import write_json
from steptime.train.prepared import (
    BYTE_PAIRS,
    INDEX,
    TRAIN,
    UNFINISHED,
    VALIDATION,
    Index,
    Shard,
    read_index,
)
from steptime.train.shards import check_token_ids

_OURS = (BYTE_PAIRS, *(f".{name}." for name in (BYTE_PAIRS, INDEX, UNFINISHED)))
"""What may lie in a folder without an index: of a run that was killed before it wrote one."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """The folder for this process alone; raises UsageError where another preparation has it."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another steptime data prepare is at work in {folder}: wait for it, or choose "
                "another --out"
            ) from None
        yield
    finally:
        os.close(handle)


def begun(folder: Path, asked: Index) -> Index | None:
    """What was begun in the folder, its index or the unfinished one; None where nothing was.

    ``asked``: what is to be made, without what only its making tells. Raises UsageError where the
    folder holds something else.
    """
    path = next((folder / n for n in (INDEX, UNFINISHED) if (folder / n).exists()), None)
    if path is None:
        others = [file.name for file in folder.iterdir() if not file.name.startswith(_OURS)]
        if others:
            raise UsageError(
                f"{folder} holds other files, as {min(others)}: choose a new folder with --out"
            )
        return None
    found = read_index(path)
    told = as_asked(found)
    other = [
        one.name for one in fields(Index) if getattr(told, one.name) != getattr(asked, one.name)
    ]
    if other and not found.shards:
        return None  # nothing is lost
    if other:
        raise UsageError(
            f"{folder} holds data prepared otherwise ({', '.join(other)}): remove it, or choose "
            "another --out"
        )
    return found


def as_asked(index: Index) -> Index:
    """The index without what only its making told."""
    return replace(index, vocabulary=0, end_of_text=0, tokenizer_sha256=None, ends=False, shards=())


def whole_shards(folder: Path, index: Index) -> tuple[Shard, ...]:
    """The shards that are what the index says, up to the first that is not."""
    for shard in index.shards:
        if not _is_whole(folder, index, shard):
            return tuple(one for one in index.shards if one.first < shard.first)
    return index.shards


def keep(folder: Path, index: Index) -> None:
    """Write the index of what is finished so far."""
    write_json(folder / UNFINISHED, asdict(index))


def finish(folder: Path, index: Index) -> None:
    """Write the index: from now on the folder can be trained on."""
    keep(folder, index)
    (folder / UNFINISHED).replace(folder / INDEX)


def clear(folder: Path) -> None:
    """Remove what a killed run was writing, and the index of what is being made again."""
    for name in (TRAIN, VALIDATION, BYTE_PAIRS, INDEX, UNFINISHED):
        for path in folder.glob(f".{name}*.*"):
            path.unlink(missing_ok=True)
    (folder / INDEX).unlink(missing_ok=True)


def _is_whole(folder: Path, index: Index, shard: Shard) -> bool:
    with suppress(UsageError):
        told = check_token_ids(folder / shard.name, (index.tokenizer, index.vocabulary))
        return told == shard.sha256
    return False
