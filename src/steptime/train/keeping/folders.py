"""The folder of a run and the checkpoints in it, by their names alone."""

import errno
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

from steptime.errors import UsageError
from steptime.train.keeping.marker import MARKER, is_file_name

_NAME = re.compile(r"checkpoint_(\d{8,})")
_UNFINISHED = re.compile(r"\.checkpoint_\d{8,}(\.old)?")


def checkpoint_path(run: Path, step: int) -> Path:
    """The checkpoint after so many steps."""
    return run / f"checkpoint_{step:08}"


def unfinished_path(final: Path) -> Path:
    """Where a checkpoint is written, until it gets its name, and from where it is removed."""
    return final.with_name(f".{final.name}")


def checkpoints(run: Path) -> list[tuple[int, Path]]:
    """The checkpoints in the folder of a run, whole or not, and their steps, the newest first."""
    with suppress(OSError):
        found = [(_NAME.fullmatch(path.name), path) for path in run.iterdir()]
        return sorted(((int(name[1]), path) for name, path in found if name), reverse=True)
    return []


def sweep(run: Path) -> None:
    """Remove what a killed run had not finished writing, or not finished removing."""
    for path in run.iterdir():
        if _UNFINISHED.fullmatch(path.name) and path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)


def finish(unfinished: Path, final: Path) -> None:
    """Give a written checkpoint its name, in place of one that has it; OSError if it cannot be."""
    if final.exists():
        discard(final)
    unfinished.rename(final)
    handle = os.open(final.parent, os.O_RDONLY)
    try:
        os.fsync(handle)  # so that a power cut does not undo the new name
    finally:
        os.close(handle)


def discard(final: Path) -> None:
    """Remove a checkpoint so that a kill in the middle leaves none that seems whole.

    Raises OSError where it holds what no checkpoint has: that is not ours to remove.
    """
    if not all(path.name == MARKER or is_file_name(path.name) for path in final.iterdir()):
        raise OSError(errno.ENOTEMPTY, "a folder of that name holds something else")
    aside = final.with_name(f".{final.name}.old")
    shutil.rmtree(aside, ignore_errors=True)
    final.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)


def prune(run: Path, keep: int, step: int, last_step: int) -> None:
    """Remove the whole checkpoints up to ``step`` but the newest ``keep``; later ones stay.

    That of the ``last_step`` does not count: a run that is killed between it and its answer makes
    the answer by training the last steps again.
    """
    counted = [
        path
        for found, path in checkpoints(run)
        if found <= step and found != last_step and (path / MARKER).exists()
    ]
    for path in counted[keep:]:
        with suppress(OSError):
            discard(path)


def check_free_for(run: Path, step: int) -> None:
    """Raise UsageError where a run's folder holds checkpoints after ``step``, where this begins.

    They are another training's, which this one would remove, or go on from by mistake.
    """
    later = [path for found, path in checkpoints(run) if found > step]
    if later:
        raise UsageError(
            f"{run} holds {later[0].name}, and this training begins after step {step}: go on from "
            "it with --resume auto, or choose another --out"
        )


def check_room(run: Path, parameters: int) -> None:
    """Raise UsageError where the disk of a run's folder cannot take one checkpoint.

    ``parameters``: at least so many, each with three fp32 numbers and its weight once more.
    """
    there = next(path for path in (run.absolute(), *run.absolute().parents) if path.exists())
    free, needed = shutil.disk_usage(there).free, 14 * parameters
    if free < needed:
        raise UsageError(
            f"a checkpoint takes {needed:,} bytes, and the disk of {run} has {free:,} left: make "
            "room, or choose another --out"
        )
