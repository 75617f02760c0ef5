"""State files: the pieces of the weights and of Adam's moments that one rank owned.

A file of safetensors, which any of its readers opens, and in which nothing can be executed. Its
metadata says in ``pieces`` which elements of which tensor of the model they are.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from steptime.files import json_text, parsed_json, reading
from steptime.train.keeping.pieces import Piece
from steptime.train.safetensors import header_of, read_stored

FIELDS = ("weight", "mean", "square")
"""What is kept of each piece, in fp32: the weights, and the moments of their gradients."""

_ELEMENT = np.dtype("<f4")
_MEND = "choose another checkpoint"


@dataclass(frozen=True)
class StateFile:
    """A state file: its pieces, and where in the file the fields of each start, in bytes."""

    path: Path
    pieces: tuple[Piece, ...]
    places: Mapping[tuple[str, int], int]

    def read(self, field: str, number: int) -> NDArray[np.float32]:
        """A field of the piece of that number, shape (length,)."""
        length = self.pieces[number].length
        with reading(self.path, "state", _MEND):
            values: NDArray[np.float32] = np.fromfile(
                self.path, _ELEMENT, length, offset=self.places[field, number]
            )
            if len(values) != length:
                raise ValueError("it is truncated")
        return values


def write_state_file(
    path: Path, pieces: Iterable[tuple[Piece, Mapping[str, NDArray[np.float32]]]]
) -> None:
    """Write pieces and their fields; OSError where that cannot be."""
    listed = list(pieces)
    tensors = (
        (_name(field, number), "F32", (piece.length,))
        for number, (piece, _) in enumerate(listed)
        for field in FIELDS
    )
    told = json_text({"pieces": [asdict(piece) for piece, _ in listed]})
    with path.open("wb") as file:
        file.write(header_of(tensors, {"pieces": told}))
        for _, fields in listed:
            for field in FIELDS:
                file.write(np.ascontiguousarray(fields[field], _ELEMENT).data)
        flushed(file)


def read_state_file(path: Path) -> StateFile:
    """The pieces of a state file; UsageError where it is none, or shorter than its header says."""
    stored, metadata = read_stored(path, "state", _MEND)
    with reading(path, "state", _MEND):
        listed = parsed_json(metadata["pieces"], dict[str, list[Piece]])["pieces"]
        places = {}
        for number, piece in enumerate(listed):
            for field in FIELDS:
                one = stored[_name(field, number)]
                if (one.dtype, one.shape) != ("F32", (piece.length,)):
                    raise ValueError(f"its {field} {number} is of another size than its piece")
                places[field, number] = one.begin
    return StateFile(path, tuple(listed), places)


def flushed(file: IO[bytes]) -> None:
    """Make what was written survive a power cut too."""
    file.flush()
    os.fsync(file.fileno())


def _name(field: str, number: int) -> str:
    return f"{field}.{number}"
