"""Datasets: what a map-style dataset consists of, as far as it says so without being read."""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import ConcatDataset, Subset, TensorDataset

_MOST = 100_000
"""Samples of a dataset that is looked at: each takes about a microsecond, once."""

_ROW = 256  # bytes of a sample that is an array
_SKETCH = 32
_BITS = 32

Hashes: TypeAlias = NDArray[np.uint32]
_Plain: TypeAlias = str | int | float | bytes | PurePath


@dataclass(frozen=True, eq=False)
class Contents:
    """What tells two datasets apart: ``ordered`` of their samples in order, ``bag`` in any.

    ``whole``: ``ordered`` of what it is a Subset of, or of itself. ``drawn``: some of it are
    fractions, which a script may have drawn at random. ``sketch``: the least hashes of single
    samples. Two datasets that share none share few samples, if any (Broder 1997, On the resemblance
    and containment of documents).
    """

    ordered: int
    bag: int
    whole: int
    drawn: bool
    sketch: Sequence[int]


def contents_of(dataset: Any) -> Contents | None:
    """The contents of a dataset; None where it has too many samples or does not say."""
    hashes = _hashes(dataset)
    if hashes is None or not len(hashes):
        return None
    values = hashes.astype(np.uint64)
    whole = _hashes(dataset.dataset) if isinstance(dataset, Subset) else hashes
    return Contents(
        ordered=zlib.crc32(hashes.tobytes()),
        whole=0 if whole is None else zlib.crc32(whole.tobytes()),
        bag=int(np.sum(values * (values | np.uint64(1)), dtype=np.uint64)) >> _BITS,
        drawn=_has_fractions(dataset),
        sketch=np.unique(hashes)[:_SKETCH].tolist(),
    )


def _hashes(dataset: Any) -> Hashes | None:
    """A hash of each sample, shape (samples,)."""
    try:
        number = len(dataset)
    except (TypeError, NotImplementedError):
        return None
    if number > _MOST:
        return None
    if isinstance(dataset, Subset):
        inner, at = _hashes(dataset.dataset), np.asarray(dataset.indices, np.int64)
        return _of(at) if inner is None else inner[at]
    if isinstance(dataset, ConcatDataset):
        parts = [one for one in map(_hashes, dataset.datasets) if one is not None]
        return np.concatenate(parts) if len(parts) == len(dataset.datasets) else None
    return _together(map(_of, _held(dataset, number)))


def _has_fractions(dataset: Any) -> bool:
    if isinstance(dataset, Subset):
        return _has_fractions(dataset.dataset)
    if isinstance(dataset, ConcatDataset):
        return any(map(_has_fractions, dataset.datasets))
    return any(map(_are_fractions, _held(dataset, len(dataset))))


def _are_fractions(samples: Any) -> bool:
    if isinstance(samples, torch.Tensor):
        return samples.is_floating_point()
    if isinstance(samples, np.ndarray):
        return bool(samples.dtype.kind == "f")
    return any(isinstance(one, float) for one in samples[:_SKETCH])


def _held(dataset: Any, number: int) -> list[Any]:
    """What a dataset of so many samples has something of each in."""
    if isinstance(dataset, list | tuple):
        return [dataset]
    if isinstance(dataset, TensorDataset):
        return list(dataset.tensors)
    public = getattr(dataset, "__dict__", {})
    held = [value for name, value in public.items() if not name.startswith("_")]
    return [value for value in held if _is_long(value, number)]


def _is_long(value: Any, number: int) -> bool:
    """Whether it may have something of each of so many samples."""
    if isinstance(value, np.ndarray | torch.Tensor):
        return value.ndim > 0 and len(value) == number
    return isinstance(value, list | tuple) and len(value) == number


def _together(several: Iterable[Hashes | None]) -> Hashes | None:
    """One hash of each sample of those of its parts; None where no part has any."""
    known = [one for one in several if one is not None]
    if len(known) < 2:
        return known[0] if known else None
    return _of(np.stack(known, axis=1))


def _of(samples: Any) -> Hashes | None:
    """A hash of each of some plain values, tuples of such, or rows of an array."""
    if isinstance(samples, torch.Tensor):
        if samples.is_cuda or samples.layout != torch.strided or not samples.numel():
            return None
        samples = samples.detach().reshape(len(samples), -1).contiguous().view(torch.uint8).numpy()
    if isinstance(samples, np.ndarray):
        if samples.dtype == object or not samples.size or isinstance(samples, np.memmap):
            return None
        rows = np.ascontiguousarray(samples).reshape(len(samples), -1).view(np.uint8)[:, :_ROW]
        return np.array([zlib.crc32(row.tobytes()) for row in rows], np.uint32)
    if isinstance(samples, list | tuple) and all(map(_is_plain, samples)):
        return np.array([zlib.crc32(repr(one).encode()) for one in samples], np.uint32)
    return None


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return len(value) <= _SKETCH and all(map(_is_plain, value))
    return isinstance(value, _Plain) or value is None
