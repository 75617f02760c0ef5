"""Pieces: which elements of which tensor of a model a rank keeps, so that any other rank finds its.

A rank holds a *part* of a tensor: some boxes of it, put together along one dimension (of a fused
tensor it holds a box of queries, one of keys and one of values). Of a part, flattened, it owns a
*piece*: a stretch of elements that follow one another. Every layout of a training over ranks can
be said so, and any two meet in the whole tensor.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Box: TypeAlias = tuple[tuple[int, int], ...]
"""A part of a tensor: where it starts and stops along each dimension."""


@dataclass(frozen=True)
class Part:
    """What a rank holds of a tensor of ``shape``: ``boxes`` of it, put together along ``dim``."""

    tensor: str
    shape: tuple[int, ...]
    boxes: tuple[Box, ...]
    dim: int = 0

    @property
    def size(self) -> int:
        """Its elements."""
        return sum(_volume(box) for box in self.boxes)

    def cut(self, whole: NDArray[Any]) -> NDArray[Any]:
        """The part of a ``whole`` tensor, flattened, shape (size,)."""
        return np.concatenate([whole[_slices(box)] for box in self.boxes], self.dim).reshape(-1)

    def put(self, flat: NDArray[Any], whole: NDArray[Any]) -> None:
        """Write the part, flattened, shape (size,), to its places in a ``whole`` tensor."""
        widths = [box[self.dim][1] - box[self.dim][0] for box in self.boxes]
        shape = [stop - start for start, stop in self.boxes[0]]
        shape[self.dim] = sum(widths)
        blocks = np.split(flat.reshape(shape), np.cumsum(widths)[:-1], self.dim)
        for box, block in zip(self.boxes, blocks, strict=True):
            whole[_slices(box)] = block


def whole(tensor: str, shape: tuple[int, ...]) -> Part:
    """All of a tensor."""
    return Part(tensor, shape, (tuple((0, size) for size in shape),))


@dataclass(frozen=True)
class Piece:
    """``length`` elements of a flattened ``part`` from ``start`` on, after so many ``updates``."""

    part: Part
    start: int
    length: int
    updates: int

    @property
    def stop(self) -> int:
        """Where it ends in the flattened part."""
        return self.start + self.length


def assembled(pieces: Iterable[tuple[Piece, NDArray[Any]]]) -> NDArray[np.float32]:
    """The whole tensor that these pieces, which cover it, and their elements make up."""
    by_part: dict[Part, list[tuple[Piece, NDArray[Any]]]] = {}
    for piece, values in pieces:
        by_part.setdefault(piece.part, []).append((piece, values))
    tensor = np.empty(next(iter(by_part)).shape, np.float32)
    for part, stretches in by_part.items():
        flat = np.empty(part.size, np.float32)
        for piece, values in stretches:
            flat[piece.start : piece.stop] = values
        part.put(flat, tensor)
    return tensor


def check_cover(pieces: Sequence[Piece], tensors: Mapping[str, tuple[int, ...]]) -> None:
    """Raise ValueError unless the pieces cover all elements of these tensors once each."""
    if {piece.part.tensor for piece in pieces} - tensors.keys():
        raise ValueError("tensors that the model has not are among them")
    ordered = sorted(pieces, key=lambda piece: piece.part.tensor)
    found = {name: list(of) for name, of in groupby(ordered, lambda piece: piece.part.tensor)}
    for name, shape in tensors.items():
        for problem in _problems(found.get(name, []), shape):
            raise ValueError(f"{name} {problem}")


def _problems(pieces: list[Piece], shape: tuple[int, ...]) -> Iterator[str]:
    """What is wrong with the pieces of one tensor."""
    by_part: dict[Part, list[Piece]] = {}
    for piece in pieces:
        by_part.setdefault(piece.part, []).append(piece)
    if any(part.shape != shape or not _fits(part) for part in by_part):
        yield "is another tensor there"
        return
    boxes = [box for part in by_part for box in part.boxes]
    if sum(map(_volume, boxes)) != prod(shape) or any(
        _meet(*two) for two in combinations(boxes, 2)
    ):
        yield "is not whole"
    for part, stretches in by_part.items():
        stretches.sort(key=lambda piece: piece.start)
        ends = [0, *(piece.stop for piece in stretches)]
        if ends != [*(piece.start for piece in stretches), part.size]:
            yield "is not whole"


def _fits(part: Part) -> bool:
    """Whether the boxes lie within the tensor and can be put together."""
    if not part.boxes or not 0 <= part.dim < max(1, len(part.shape)):
        return False
    for box in part.boxes:
        if len(box) != len(part.shape):
            return False
        if not all(0 <= a < b <= size for (a, b), size in zip(box, part.shape, strict=True)):
            return False
    others = {
        tuple(b - a for dim, (a, b) in enumerate(box) if dim != part.dim) for box in part.boxes
    }
    return len(others) == 1


def _meet(one: Box, other: Box) -> bool:
    return all(a < d and c < b for (a, b), (c, d) in zip(one, other, strict=True))


def _volume(box: Box) -> int:
    return prod(stop - start for start, stop in box)


def _slices(box: Box) -> tuple[slice, ...]:
    return tuple(slice(start, stop) for start, stop in box)
