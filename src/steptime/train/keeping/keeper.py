"""Keeper: the checkpoints of a run, written while the training goes on.

A step copies what this rank owns to host memory, and a thread writes it, to a folder with a name
that no checkpoint has. Threads call no collectives, which could meet those of the steps: between
two steps the ranks tell one another whether they are done. Then rank 0 writes the marker, gives the
folder its name and removes the oldest ones. So a folder with the name of a checkpoint is whole.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from steptime.errors import SteptimeError
from steptime.train.keeping.folders import finish, prune, unfinished_path
from steptime.train.keeping.marker import (
    MODEL,
    CheckpointInfo,
    FileSum,
    state_name,
    summed,
    write_marker,
)
from steptime.train.keeping.pieces import Piece
from steptime.train.keeping.state import host_copy
from steptime.train.keeping.state_file import write_state_file
from steptime.train.live import Live
from steptime.train.llmc import CheckpointDtype, can_hold, write_weights
from steptime.train.precision import LossScale
from steptime.workloads.precision import element_dtype


@dataclass(frozen=True, eq=False)
class Snapshot:
    """What this rank writes of a checkpoint, in host memory of its own; ``info`` lacks the files.

    ``pieces``: None where other ranks write all; ``weights``: those of the model, on the one rank
    that writes them in llm.c's format too.
    """

    info: CheckpointInfo
    pieces: list[tuple[Piece, dict[str, NDArray[np.float32]]]] | None
    weights: Mapping[str, Tensor] | None


def snapshot(training: Live, step: int, batch: int, loss_scale: LossScale) -> Snapshot:
    """The state after ``step`` steps; ``batch`` and ``loss_scale`` are those of the next one."""
    training.settle()
    info = CheckpointInfo(
        step=step,
        batch=batch,
        ranks=training.ranks,
        strategy=training.strategy.name,
        precision=training.precision.name,
        seed=training.batches.seed,
        config=training.config,
        loss_scale=asdict(loss_scale) if training.precision.scaled else None,
        files={},
    )
    named = training.weights() if can_hold(training.config) else None
    weights = None
    if named is not None:
        weights = {name: tensor.detach().to("cpu", copy=True) for name, tensor in named.items()}
    return Snapshot(info, host_copy(training.state()) if training.writes else None, weights)


def write_snapshot(folder: Path, rank: int, taken: Snapshot) -> dict[str, FileSum]:
    """Write a rank's files, and what they hold; OSError where that cannot be."""
    names = []
    if taken.weights is not None:
        in_bf16 = element_dtype(taken.info.precision) == "bf16"
        dtype: CheckpointDtype = "bf16" if in_bf16 else "fp32"
        write_weights(folder / MODEL, taken.info.config, taken.weights, dtype)
        names.append(MODEL)
    if taken.pieces is not None:
        write_state_file(folder / state_name(rank), taken.pieces)
        names.append(state_name(rank))
    return {name: summed(folder / name) for name in names}


@dataclass(frozen=True, eq=False)
class _Writing:
    """A checkpoint under way: its name in the end, and this rank's files once they are written."""

    final: Path
    info: CheckpointInfo
    files: Future[dict[str, FileSum]]


class Keeper:
    """The checkpoints of one run, of which one at a time is being written.

    All ranks call its methods alike, between steps, and see the same folders. ``keep``: how many
    stay, None for all; ``last_step``: that of the run. ``written`` is called with each that is
    whole.

    Raises SteptimeError on every rank where one of them cannot write.
    """

    def __init__(
        self,
        device: torch.device,
        keep: int | None,
        last_step: int,
        written: Callable[[Path], None],
    ) -> None:
        self._device = device
        self._keep = keep
        self._last_step = last_step
        self._written = written
        self._writing: _Writing | None = None
        self._thread = ThreadPoolExecutor(1, "checkpoint")

    def begin(self, final: Path, taken: Snapshot) -> None:
        """Begin to write a checkpoint to the folder ``final``, once the former is whole."""
        self.settle()
        rank, folder = dist.get_rank(), unfinished_path(final)

        def empty_folder() -> None:
            if rank == 0:
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir(parents=True)

        _together(final, empty_folder)
        files = self._thread.submit(write_snapshot, folder, rank, taken)
        self._writing = _Writing(final, taken.info, files)

    def between_steps(self, asked: bool) -> bool:
        """Whether any rank is ``asked`` to stop; what all ranks have written becomes whole."""
        unwritten = self._writing is not None and not self._writing.files.done()
        words = torch.tensor([float(asked), float(unwritten)], device=self._device)
        dist.all_reduce(words)  # not through a Communicator: it is no part of a step
        if self._writing and not words[1]:
            self.settle()
        return bool(words[0])

    def settle(self) -> None:
        """Wait until the checkpoint that is being written is whole, if there is one."""
        if self._writing is None:
            return
        writing, self._writing = self._writing, None
        found: dict[str, FileSum] = {}
        try:
            _together(writing.final, lambda: found.update(writing.files.result()))
            everyone: list[dict[str, FileSum]] = [{}] * dist.get_world_size()
            dist.all_gather_object(everyone, found)
            _together(writing.final, lambda: self._name(writing, everyone))
        except SteptimeError:
            if dist.get_rank() == 0:
                shutil.rmtree(unfinished_path(writing.final), ignore_errors=True)
            raise
        self._written(writing.final)

    def _name(self, writing: _Writing, everyone: list[dict[str, FileSum]]) -> None:
        """On rank 0: write the marker, give the checkpoint its name, remove the oldest."""
        if dist.get_rank():
            return
        files = {name: one for of_rank in everyone for name, one in of_rank.items()}
        write_marker(unfinished_path(writing.final), replace(writing.info, files=files))
        finish(unfinished_path(writing.final), writing.final)
        if self._keep:
            prune(writing.final.parent, self._keep, writing.info.step, self._last_step)


def _together(final: Path, work: Callable[[], Any]) -> None:
    """Do ``work`` on every rank; raise SteptimeError on all where one cannot, with its reason."""
    reason = None
    try:
        work()
    except OSError as error:
        reason = error.strerror or str(error)
    reasons: list[str | None] = [None] * dist.get_world_size()
    dist.all_gather_object(reasons, reason)
    if told := next(filter(None, reasons), None):
        raise SteptimeError(f"cannot write the checkpoint {final}: {told}")
