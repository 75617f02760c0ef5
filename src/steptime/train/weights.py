"""Weights by their path: a checkpoint, a file of llm.c's, or a file or folder of Hugging Face's.

Dimensions are read without torch.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from steptime.errors import UsageError
from steptime.files import opened
from steptime.runs.run_folder import RECORD
from steptime.train.hugging_face import is_hugging_face, read_hugging_face
from steptime.train.keeping.folders import checkpoints
from steptime.train.keeping.marker import (
    MARKER,
    CheckpointInfo,
    read_marker,
    read_states,
    verify,
)
from steptime.train.keeping.state import read_weights
from steptime.train.llmc import check_dimensions, read_checkpoint, read_header

if TYPE_CHECKING:
    from torch import Tensor

    from steptime.train.model import Decoder
    from steptime.workloads.models import Transformer

_PICKLES = (b"PK\x03\x04", *(b"\x80%c" % protocol for protocol in range(2, 6)))
"""How torch.save begins a file: a zip of pickles, or one pickle."""


@dataclass(frozen=True)
class Weights:
    """The weights of a model, where they are, and of a checkpoint what its marker says.

    ``dimensions`` and ``tensors`` raise UsageError where they are damaged, a pickle, or of a model
    that cannot be trained here.
    """

    path: Path
    checkpoint: CheckpointInfo | None = None

    @property
    def folders(self) -> tuple[Path, ...]:
        """Where files about their text may lie: beside the weights, and in the folder of a run."""
        if self.checkpoint:
            return self.path, self.path.absolute().parent
        return (self.path if self.path.is_dir() else self.path.parent,)

    def dimensions(self) -> Transformer:
        """The model that they are of."""
        if self.checkpoint:
            return self.checkpoint.config
        if is_hugging_face(self.path):
            return read_hugging_face(self.path).config
        return read_header(self._without_code())[0]

    def tensors(self) -> Callable[[str], Tensor]:
        """From a name of the model's tensors to that tensor, whole, with the usual padding."""
        if self.checkpoint:
            import torch

            found = read_weights(self.path, self.checkpoint)
            return lambda name: torch.from_numpy(found[name])
        if is_hugging_face(self.path):
            return read_hugging_face(self.path).tensor
        return read_checkpoint(self._without_code()).tensors.__getitem__

    def _without_code(self) -> Path:
        with opened(self.path, "checkpoint") as file:
            start = file.read(4)
        if start.startswith(_PICKLES):
            raise UsageError(
                f"{self.path} is a pickle as torch.save writes it, which could run code: save the "
                "model as safetensors"
            )
        return self.path


def weights_at(path: Path) -> Weights:
    """The weights of a file, of a folder of Hugging Face's, of a checkpoint, or of a run.

    Of a run it is the newest checkpoint whose files are what was written. Raises UsageError for a
    folder that has none, and for a checkpoint that is damaged; of a file, to read it tells.
    """
    if (path / MARKER).exists():
        return _of_checkpoint(path)
    kept = [folder for _, folder in checkpoints(path)]
    for folder in kept:
        with suppress(UsageError):
            return _of_checkpoint(folder)
    if kept:
        raise UsageError(f"no checkpoint of {path} is whole, not even {kept[-1]}: train it again")
    if (path / RECORD).is_file():
        raise UsageError(f"{path} has no checkpoint: train with --checkpoint-every N")
    if is_hugging_face(path) or not path.is_dir():
        return Weights(path)
    raise UsageError(
        f"{path} holds no weights: name a run of steptime train --checkpoint-every N or one of its "
        "checkpoints, or a folder with Hugging Face's config.json and model.safetensors"
    )


def load_weights(model: Decoder, weights: Weights) -> None:
    """Copy weights into ``model``, rounding where its dtype is narrower.

    Raises UsageError as ``Weights`` does, and when the dimensions differ.
    """
    check_dimensions(weights.path, weights.dimensions(), model.config)
    tensor = weights.tensors()
    for name, parameter in model.named_parameters():
        parameter.data.copy_(tensor(name))


def _of_checkpoint(folder: Path) -> Weights:
    info = read_marker(folder)
    read_states(folder, info)
    verify(folder, info)
    return Weights(folder, info)
