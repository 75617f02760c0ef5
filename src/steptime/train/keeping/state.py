"""State: the tensors of one rank that make up a checkpoint, and how they are filled from one.

A checkpoint knows no training: whoever lays a model out over ranks says by ``State`` which
elements of which tensor its own tensors are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from steptime.files import reading
from steptime.train.keeping.marker import MARKER, MEND, CheckpointInfo, read_states
from steptime.train.keeping.pieces import Part, Piece, assembled
from steptime.train.keeping.state_file import StateFile

if TYPE_CHECKING:
    from torch import Tensor

    from steptime.train.precision import LossScale


@dataclass(frozen=True, eq=False)
class Target:
    """A tensor, 1-D, that holds the elements of a flattened ``part`` from ``start`` on."""

    part: Part
    start: int
    tensor: Tensor


@dataclass(frozen=True, eq=False)
class Owned:
    """What a rank updates: a stretch of weights, their moments, and the updates done, ().

    ``written``: this rank writes it to a checkpoint, and no other.
    """

    part: Part
    start: int
    fields: Mapping[str, Tensor]
    updates: Tensor
    written: bool = True


@dataclass(frozen=True, eq=False)
class State:
    """What one rank keeps and needs.

    ``owned``: what it updates; those of all ranks that are written cover the model once.
    ``computed``: all weights that it computes with, its own and others'.
    """

    owned: Sequence[Owned]
    computed: Sequence[Target]


def host_copy(state: State) -> list[tuple[Piece, dict[str, NDArray[np.float32]]]]:
    """What a rank owns as it is now, in host memory of its own, so that training can go on."""
    import torch

    return [
        (
            Piece(owned.part, owned.start, len(owned.fields["weight"]), int(owned.updates)),
            {
                field: tensor.detach().to("cpu", torch.float32, copy=True).numpy()
                for field, tensor in owned.fields.items()
            },
        )
        for owned in state.owned
        if owned.written
    ]


def fill(state: State, folder: Path, info: CheckpointInfo) -> LossScale | None:
    """Set a rank's tensors to what a checkpoint holds, one tensor of the model at a time.

    Every rank reads what it needs from the files, without communication. Returns the loss scale of
    the next step, None where nothing was scaled. Raises UsageError as ``read_states`` does.
    """
    import torch

    from steptime.train.precision import LossScale

    files = read_states(folder, info)
    found: dict[str, list[tuple[StateFile, int]]] = {}
    for file in files:
        for number, piece in enumerate(file.pieces):
            found.setdefault(piece.part.tensor, []).append((file, number))
    for (name, field), targets in _targets(state).items():
        tensor = assembled((f.pieces[n], f.read(field, n)) for f, n in found[name])
        for target in targets:
            stretch = target.part.cut(tensor)[target.start :][: len(target.tensor)]
            target.tensor.copy_(torch.from_numpy(stretch))
    updates = next(piece.updates for file in files for piece in file.pieces)
    for owned in state.owned:
        owned.updates.fill_(updates)
    if info.loss_scale is None:
        return None
    with reading(folder / MARKER, "checkpoint", MEND):
        return LossScale(**info.loss_scale)


def _targets(state: State) -> dict[tuple[str, str], list[Target]]:
    """The tensors to fill by the tensor of the model and the field that they are filled from."""
    targets: dict[tuple[str, str], list[Target]] = {}
    for computed in state.computed:
        targets.setdefault((computed.part.tensor, "weight"), []).append(computed)
    for owned in state.owned:
        for field, tensor in owned.fields.items():
            target = Target(owned.part, owned.start, tensor)
            targets.setdefault((owned.part.tensor, field), []).append(target)
    return targets


def read_weights(folder: Path, info: CheckpointInfo) -> dict[str, NDArray[np.float32]]:
    """All weights of the model in a checkpoint, whole, in fp32, by their names."""
    found: dict[str, list[tuple[Piece, NDArray[np.float32]]]] = {}
    for file in read_states(folder, info):
        for number, piece in enumerate(file.pieces):
            values = file.read("weight", number)
            found.setdefault(piece.part.tensor, []).append((piece, values))
    return {name: assembled(pieces) for name, pieces in found.items()}
