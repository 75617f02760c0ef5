"""Checkpoints of a training, which any strategy on any number of ranks can resume.

A checkpoint is a folder: ``state_<rank>.safetensors`` has the fp32 weights and Adam's moments of
what a rank owned, ``model.bin`` the weights of a GPT-2 in llm.c's format, and ``DONE``, written
last, everything else, with a hash of each file. A folder without ``DONE`` is no checkpoint.

The format of torch.distributed.checkpoint has its metadata in a pickle, and to open one from
elsewhere is to run what its author wrote. Nothing here can be run.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from steptime.train.keeping.marker import CheckpointInfo, read_marker, read_states, verify
from steptime.train.keeping.state import fill, read_weights
from steptime.train.llmc import check_dimensions

if TYPE_CHECKING:
    from steptime.train.live import Live
    from steptime.train.precision import LossScale

__all__ = [
    "CheckpointInfo",
    "load_checkpoint",
    "read_checkpoint_info",
    "read_weights",
    "save_checkpoint",
]


def save_checkpoint(folder: Path, training: Live, step: int, loss_scale: LossScale) -> None:
    """Write a checkpoint of ``training`` after ``step`` steps; every rank calls this and waits.

    ``loss_scale`` is that of the next step. A checkpoint that is in ``folder`` is replaced once
    this one is whole. All ranks see the same folder.

    Raises SteptimeError on every rank when one of them could not write.
    """
    from steptime.train.keeping.keeper import Keeper, snapshot

    keeper = Keeper(training.device, None, step, written=lambda _: None)
    keeper.begin(folder, snapshot(training, step, step, loss_scale))
    keeper.settle()


def read_checkpoint_info(folder: Path) -> CheckpointInfo:
    """The marker of a checkpoint, once its state files have been looked at.

    Raises UsageError when the folder is missing or holds no complete checkpoint, or when its files
    are cut off, of different steps, or do not cover the model.
    """
    info = read_marker(folder)
    read_states(folder, info)
    return info


def load_checkpoint(
    folder: Path, training: Live, info: CheckpointInfo | None = None
) -> tuple[int, LossScale | None]:
    """Set a training that has not begun to the state in a checkpoint.

    Every rank fills all parameters and its own optimizer state from the files, without
    communication. ``info``: what the marker says, where the files have been verified already.
    Returns the number of the next step and the loss scale for ``training_steps``: None where this
    or the former training scales nothing.

    Raises UsageError as ``read_checkpoint_info`` does, when a file is not what was written, and
    when the model's dimensions differ.
    """
    if info is None:
        info = read_marker(folder)
        verify(folder, info)
    check_dimensions(folder, info.config, training.config)
    scale = fill(training.state(), folder, info)
    return info.step, scale if training.precision.scaled else None
