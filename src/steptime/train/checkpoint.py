"""Checkpoints of a training, which any strategy on any number of ranks can resume.

A checkpoint is a folder: ``model.bin`` has the weights in llm.c's format, ``state_<rank>.npz`` the
fp32 weights and Adam's moments of the parameters that a rank owned, and ``DONE``, written last,
everything else. A folder without ``DONE`` is no checkpoint. All checks before ranks start need no
torch.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile, ZipFile

import numpy as np

from steptime.errors import SteptimeError, UsageError
from steptime.files import atomic_file, write_json
from steptime.strategies import Span
from steptime.train.config import GPT2Config
from steptime.train.llmc import CheckpointDtype, check_dimensions, write_checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray
    from torch import Tensor

    from steptime.train.optimizer import Segment
    from steptime.train.precision import LossScale
    from steptime.train.training import Training
    from steptime.workloads.precision import DtypeName

_MARKER = "DONE"
_MODEL = "model.bin"
_SPAN = np.dtype([("offset", "<i8"), ("length", "<i8"), ("updates", "<i8")])


@dataclass(frozen=True, kw_only=True)
class CheckpointInfo:
    """The content of a checkpoint's marker ``DONE``.

    ``step``: the steps done, and so the number of the next one. ``loss_scale``: the fields of that
    step's LossScale, None where nothing was scaled.
    """

    step: int
    ranks: int
    state_files: int
    strategy: str
    precision: DtypeName
    seed: int
    config: GPT2Config
    loss_scale: Mapping[str, Any] | None


def save_checkpoint(folder: Path, training: Training, step: int, loss_scale: LossScale) -> None:
    """Write a checkpoint of ``training`` after ``step`` steps; every rank calls this and waits.

    ``loss_scale`` is that of the next step. ``folder`` may exist, and a checkpoint in it is
    replaced. All ranks see the same folder.

    Raises SteptimeError on every rank when one of them could not write.
    """
    comm = training.comm
    training.sync.settle()
    with _together(folder, training):
        folder.mkdir(parents=True, exist_ok=True)
        if comm.rank == 0:
            (folder / _MARKER).unlink(missing_ok=True)
    with _together(folder, training):
        if comm.rank == 0:
            dtype: CheckpointDtype = "bf16" if training.precision.name == "bf16" else "fp32"
            write_checkpoint(folder / _MODEL, training.model, dtype)
        if comm.rank == 0 or training.partitioned:
            _write_state(_state_file(folder, comm.rank), _segments(training))
    with _together(folder, training):
        if comm.rank == 0:
            info = CheckpointInfo(
                step=step,
                ranks=comm.ranks,
                state_files=comm.ranks if training.partitioned else 1,
                strategy=training.strategy.name,
                precision=training.precision.name,
                seed=training.batches.seed,
                config=training.config,
                loss_scale=asdict(loss_scale) if training.precision.scaled else None,
            )
            write_json(folder / _MARKER, asdict(info))


def read_checkpoint_info(folder: Path) -> CheckpointInfo:
    """The marker of a checkpoint, once its state files have been checked.

    Raises UsageError when the folder is missing or holds no complete checkpoint, or when its files
    are damaged, of different steps, or do not cover the model.
    """
    info = _read_marker(folder)
    _spans(folder, info)
    return info


def load_checkpoint(folder: Path, training: Training) -> tuple[int, LossScale | None]:
    """Set a training that has not begun to the state in a checkpoint.

    Every rank fills all parameters and its own optimizer state from the files, one tensor at a
    time, without communication. Returns the number of the next step and the loss scale for
    ``training_steps``: None where this or the former training scales nothing.

    Raises UsageError as ``read_checkpoint_info`` does, and when the model's dimensions differ.
    """
    from steptime.train.precision import LossScale

    info = _read_marker(folder)
    check_dimensions(folder, info.config, training.config)
    updates = int(_spans(folder, info)["updates"][0])
    places = _places(training)
    for path in _state_files(folder, info):
        with _reading(path), ZipFile(path) as archive:
            for row in _read(archive, "stretches"):
                span = Span(int(row["offset"]), int(row["offset"] + row["length"]))
                for field, targets in places.items():
                    _fill(targets, span, archive, f"{field}_{span.start}")
    for segment in _segments(training):
        segment.step.fill_(updates)
    if info.loss_scale is None or not training.precision.scaled:
        return info.step, None
    return info.step, LossScale(**info.loss_scale)


def _segments(training: Training) -> list[Segment]:
    return [segment for bucket in training.optimizer.segments for segment in bucket]


def _state_file(folder: Path, rank: int) -> Path:
    return folder / f"state_{rank:05d}.npz"


def _state_files(folder: Path, info: CheckpointInfo) -> list[Path]:
    return [_state_file(folder, rank) for rank in range(info.state_files)]


def _write_state(path: Path, segments: Iterable[Segment]) -> None:
    """An ``.npz`` of each segment's tensors, written one after the other.

    Its member ``stretches`` holds the span of each segment in the unpadded parameters.
    """
    rows = [(segment.offset, len(segment.weight), int(segment.step)) for segment in segments]
    with atomic_file(path) as file, ZipFile(file, "w") as archive:
        _write(archive, "stretches", np.array(rows, _SPAN))
        for segment in segments:
            for field in ("weight", "mean", "square"):
                values = getattr(segment, field).cpu().numpy()
                _write(archive, f"{field}_{segment.offset}", values)


def _write(archive: ZipFile, name: str, values: NDArray[Any]) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, values, allow_pickle=False)


def _read(archive: ZipFile, name: str) -> NDArray[Any]:
    with archive.open(f"{name}.npy") as member:
        values: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
    return values


def _read_marker(folder: Path) -> CheckpointInfo:
    marker = folder / _MARKER
    if not folder.is_dir():
        raise UsageError(f"there is no checkpoint {folder}: name a folder that holds one")
    if not marker.exists():
        raise UsageError(
            f"{folder} is no complete checkpoint: it has no file {_MARKER}, which is written last; "
            "choose another"
        )
    with _reading(marker):
        fields = json.loads(marker.read_bytes())
        return CheckpointInfo(**(fields | {"config": GPT2Config(**fields["config"])}))


def _spans(folder: Path, info: CheckpointInfo) -> NDArray[np.void]:
    """The spans of the segments in all state files; together they cover the model exactly once."""
    found = [np.empty(0, _SPAN)]
    for path in _state_files(folder, info):
        with _reading(path), ZipFile(path) as archive:
            found.append(_read(archive, "stretches").astype(_SPAN))
    rows = np.sort(np.concatenate(found), order="offset")
    if [0, *(rows["offset"] + rows["length"])] != [*rows["offset"], info.config.parameters]:
        raise UsageError(
            f"the state files in {folder} do not cover the {info.config.parameters:,} parameters "
            "of the model once each; choose another checkpoint"
        )
    if len(np.unique(rows["updates"])) > 1:
        raise UsageError(
            f"the state files in {folder} are of different steps; choose another checkpoint"
        )
    return rows


def _places(training: Training) -> dict[str, list[tuple[Span, Tensor]]]:
    """For each saved field, the tensors to fill and their spans in the unpadded parameters.

    Weights go to all parameters, and to the fp32 weights of the segments where those are separate.
    """
    flat = training.flat
    places: dict[str, list[tuple[Span, Tensor]]] = {"weight": [], "mean": [], "square": []}
    for slot in flat.layout.slots:
        span = Span(slot.offset, slot.offset + len(slot.span))
        places["weight"].append((span, flat.parameters[slot.span.slice]))
    for segment in _segments(training):
        span = Span(segment.offset, segment.offset + len(segment.weight))
        if segment.weight is not segment.compute:
            places["weight"].append((span, segment.weight))
        places["mean"].append((span, segment.mean))
        places["square"].append((span, segment.square))
    return places


def _fill(places: Iterable[tuple[Span, Tensor]], saved: Span, archive: ZipFile, name: str) -> None:
    """Copy a saved span into the tensors that it overlaps; it is read only if there are any."""
    import torch

    reached = [(span, to, span.overlap(saved)) for span, to in places]
    reached = [(span, to, part) for span, to, part in reached if len(part)]
    if not reached:
        return
    values = torch.from_numpy(_read(archive, name))
    if values.shape != (len(saved),):
        raise ValueError(f"{name} has shape {tuple(values.shape)}")
    for span, to, part in reached:
        piece = values[part.start - saved.start : part.stop - saved.start]
        to[part.start - span.start : part.stop - span.start].copy_(piece)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Convert the errors of a damaged or missing file into one sentence."""
    try:
        yield
    except (OSError, EOFError, ValueError, KeyError, TypeError, BadZipFile) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"cannot read {path}: {reason}; choose another checkpoint") from None


@contextmanager
def _together(folder: Path, training: Training) -> Iterator[None]:
    """Wait for every rank; if one could not write, raise SteptimeError on all."""
    import torch
    import torch.distributed as dist

    reason = None
    try:
        yield
    except OSError as error:
        reason = error.strerror
    failed = torch.tensor(float(reason is not None), device=training.device)
    dist.all_reduce(failed)  # not through comm: it is no part of a step
    if failed:
        raise SteptimeError(
            f"cannot write the checkpoint {folder}: {reason or 'another rank could not'}"
        )
