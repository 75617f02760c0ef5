"""Which memory a call of c10d reads and writes."""

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.weak import WeakTensorKeyDictionary

_MOST_COMPARED = 1 << 20
"""Elements of a tensor with gaps that are compared one by one with those of another."""


@dataclass(frozen=True, eq=False)
class Span:
    """The memory of a tensor, which it does not keep: bytes of a storage from begin to end.

    ``shape``, ``strides`` and ``itemsize`` tell which of them, ``dense``: all.
    """

    storage: StorageWeakRef
    begin: int
    end: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    dense: bool

    def overlaps(self, other: "Span") -> bool:
        """Whether both have bytes in common; two large ones with gaps in them count as apart."""
        if self.storage.cdata != other.storage.cdata:
            return False
        if self.begin >= other.end or other.begin >= self.end:
            return False
        if self.dense and other.dense:
            return True
        if max(np.prod(self.shape), np.prod(other.shape)) > _MOST_COMPARED:
            return False
        return bool(np.isin(self._elements(), other._elements()).any())

    def _elements(self) -> Any:
        """The bytes that it is of, each by its offset in the storage."""
        at = np.array([self.begin])
        for size, stride in zip(self.shape, self.strides, strict=True):
            at = (at[:, None] + np.arange(size) * stride * self.itemsize).reshape(-1)
        return (at[:, None] + np.arange(self.itemsize)).reshape(-1)


def span(tensor: torch.Tensor) -> Span | None:
    """The memory of a tensor; None where it has none that can be told, or no elements."""
    with suppress(RuntimeError, NotImplementedError):
        storage = tensor.untyped_storage()
        if not tensor.numel():
            return None
        shape, strides, itemsize = tuple(tensor.shape), tensor.stride(), tensor.element_size()
        begin = int(tensor.storage_offset()) * itemsize
        last = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
        end = begin + (int(last) + 1) * itemsize
        dense = end - begin == tensor.numel() * itemsize
        return Span(StorageWeakRef(storage), begin, end, shape, strides, itemsize, dense)
    return None


def spans(tensors: Sequence[torch.Tensor]) -> tuple[Span, ...]:
    """The memory of tensors, of those that have some."""
    return tuple(one for one in map(span, tensors) if one is not None)


def read_and_written(
    kind: str, arguments: Sequence[Any], *, is_root: bool
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """The tensors that a call of a kind reads, and those that it writes, on this rank."""
    if kind == "barrier":
        return [], []
    first, second = (list(tensors_in(list(arguments[at : at + 1]))) for at in (0, 1))
    if second:
        return second, first
    if kind == "send":
        return first, []
    if kind in ("recv", "scatter"):
        return [], first
    if kind == "broadcast":
        return (first, []) if is_root else ([], first)
    if kind == "reduce":
        return (first, first) if is_root else (first, [])
    return first, first


class _Itself:
    """What stands for the storage of a tensor that has none: sparse, or lazy and not yet made."""

    _numbers = WeakTensorKeyDictionary()
    """Of these tensors: no address, which another may have once it is gone."""
    _next = count(1)

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = weakref.ref(tensor)
        self.cdata = self.number_of(tensor)

    @classmethod
    def number_of(cls, tensor: torch.Tensor) -> int:
        """A number that no other tensor has, and no memory."""
        if tensor not in cls._numbers:
            cls._numbers[tensor] = -next(cls._next)
        return int(cls._numbers[tensor])

    def expired(self) -> bool:
        """Whether the tensor is gone."""
        return self._tensor() is None


Storage: TypeAlias = StorageWeakRef | _Itself
"""Memory that is not kept: by its number ``cdata``, until it has ``expired``."""


def storage_of(tensor: torch.Tensor) -> Storage:
    """The memory of a tensor, which several tensors may share."""
    try:
        return StorageWeakRef(tensor.untyped_storage())
    except (RuntimeError, ValueError):
        return _Itself(tensor)


def memory_of(tensor: torch.Tensor) -> int:
    """The memory of a tensor, by a number that no other has as long as it is there."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, ValueError):
        return _Itself.number_of(tensor)


class Remembered:
    """Memory that something was done with, as long as it is there: no tensor is kept."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._storages: dict[int, Storage] = {}

    def add(self, storages: Iterable[Storage]) -> None:
        """Remember these, too, unless there are too many."""
        if len(self._storages) < self._most:
            self._storages |= {storage.cdata: storage for storage in storages}

    def __contains__(self, tensor: torch.Tensor) -> bool:
        storage = self._storages.get(memory_of(tensor))
        return storage is not None and not storage.expired()

    def clear(self) -> None:
        """Forget all."""
        self._storages.clear()


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in an argument: itself, or those in its lists and mappings."""
    if isinstance(value, list | tuple):
        for one in value:
            yield from tensors_in(one)
    elif isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from tensors_in([*value.values()])
