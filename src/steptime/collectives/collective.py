"""Collectives, each defined by what ranks hold before and must hold after."""

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Ints
from steptime.errors import UsageError
from steptime.nearest import mend

NOTHING = -1
"""The index of a slot that holds nothing, or may hold anything."""


@dataclass(frozen=True)
class Contents:
    """The contents of slots: chunk ``index`` of the data, with contributions of some ranks.

    ``index``: (rank, slot), NOTHING where there is none. ``counts``: (rank, slot, origin), how
    often the slot holds the contribution of rank ``origins[i]``.
    """

    index: Ints
    counts: NDArray[np.int16]

    @staticmethod
    def empty(ranks: int, slots: int, origins: int) -> "Contents":
        """Slots that hold nothing."""
        return Contents(
            np.full((ranks, slots), NOTHING, np.int32), np.zeros((ranks, slots, origins), np.int16)
        )


@dataclass(frozen=True)
class Collective:
    """One collective operation, by its pre- and its post-condition.

    ``before`` and ``after`` take (ranks, chunks, root) and return arrays of columns (rank, slot of
    the vector or the result, origin, index), one row for each contribution held. ``per_rank``:
    chunk i of the vector is rank i's share, so there are as many chunks as ranks.
    ``separate_result``: the result has slots of its own behind the vector. ``at_least_once``: a
    contribution may arrive more than once.
    """

    name: str
    before: Callable[[int, int, int], NDArray[Any]]
    after: Callable[[int, int, int], NDArray[Any]]
    rooted: bool = False
    reduces: bool = False
    per_rank: bool = False
    separate_result: bool = False
    at_least_once: bool = False


def _rows(*columns: Any) -> NDArray[Any]:
    return np.stack([c.reshape(-1) for c in np.broadcast_arrays(*columns)]).T


def _grid(*sizes: int) -> list[NDArray[Any]]:
    return [axis.astype(np.int32) for axis in np.ogrid[tuple(slice(size) for size in sizes)]]


def _own(ranks: int, chunks: int, root: int) -> NDArray[Any]:
    """Every rank holds its own contribution to every chunk."""
    rank, chunk = _grid(ranks, chunks)
    return _rows(rank, chunk, rank, chunk)


def _own_share(ranks: int, chunks: int, root: int) -> NDArray[Any]:
    """Every rank holds its own chunk alone."""
    rank = np.arange(ranks)
    return _rows(rank, rank, rank, rank)


def _all_at_root(ranks: int, chunks: int, root: int) -> NDArray[Any]:
    chunk = np.arange(chunks)
    return _rows(root, chunk, root, chunk)


def _reduced(ranks: int, chunks: int, root: int) -> NDArray[Any]:
    rank, chunk, origin = _grid(ranks, chunks, ranks)
    return _rows(rank, chunk, origin, chunk)


def _reduced_at_root(ranks: int, chunks: int, root: int) -> NDArray[Any]:
    chunk, origin = _grid(chunks, ranks)
    return _rows(root, chunk, origin, chunk)


def _reduced_share(ranks: int, chunks: int, root: int) -> NDArray[Any]:
    rank, origin = _grid(ranks, ranks)
    return _rows(rank, rank, origin, rank)


def _gathered(ranks: int, chunks: int, root: int) -> NDArray[Any]:
    rank, chunk = _grid(ranks, chunks)
    return _rows(rank, chunk, chunk, chunk)


def _gathered_at_root(ranks: int, chunks: int, root: int) -> NDArray[Any]:
    chunk = np.arange(chunks)
    return _rows(root, chunk, chunk, chunk)


def _from_root(ranks: int, chunks: int, root: int) -> NDArray[Any]:
    rank, chunk = _grid(ranks, chunks)
    return _rows(rank, chunk, root, chunk)


def _share_from_root(ranks: int, chunks: int, root: int) -> NDArray[Any]:
    rank = np.arange(ranks)
    return _rows(rank, rank, root, rank)


def _transposed(ranks: int, chunks: int, root: int) -> NDArray[Any]:
    """Slot s of rank r's result holds chunk r of rank s."""
    rank, slot = _grid(ranks, chunks)
    return _rows(rank, slot, slot, rank)


COLLECTIVES = MappingProxyType(
    {
        collective.name: collective
        for collective in (
            Collective("all_reduce", _own, _reduced, reduces=True),
            Collective("reduce_scatter", _own, _reduced_share, reduces=True, per_rank=True),
            Collective("all_gather", _own_share, _gathered, per_rank=True),
            Collective("broadcast", _all_at_root, _from_root, rooted=True),
            Collective("reduce", _own, _reduced_at_root, rooted=True, reduces=True),
            Collective("scatter", _all_at_root, _share_from_root, rooted=True, per_rank=True),
            Collective("gather", _own_share, _gathered_at_root, rooted=True, per_rank=True),
            Collective("all_to_all", _own, _transposed, per_rank=True, separate_result=True),
            Collective("barrier", _own, _reduced, reduces=True, at_least_once=True),
        )
    }
)


def collective_named(name: str) -> Collective:
    """The collective of that name, or a UsageError that lists them."""
    if name not in COLLECTIVES:
        raise UsageError(f"there is no collective {name!r}: {mend(name, COLLECTIVES)}")
    return COLLECTIVES[name]
