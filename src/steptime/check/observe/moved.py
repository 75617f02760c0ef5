"""Moved: a call as those are told of it who follow gradients and parameters."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch

from steptime.check.observe.buffers import Storage, storage_of, tensors_in
from steptime.record.operations import Operation
from steptime.record.tensors import nbytes_of
from steptime.world import compat


class Moved:
    """A call of c10d among two ranks or more: its kind, and the tensors whose bytes count.

    ``chosen``: what it reduces by, if Python set that. What costs to be told is told once, to
    whoever asks first.
    """

    def __init__(
        self, operation: Operation, group: Any, arguments: Sequence[Any], peer: int, chosen: Any
    ):
        self.operation, self.kind = operation, operation.kind
        self._chosen = chosen
        self.tensors = list(tensors_in(operation.vector(arguments)))
        self._group, self._peer, self._arguments = group, peer, arguments

    @cached_property
    def nbytes(self) -> int:
        """Of all its tensors."""
        return sum(map(nbytes_of, self.tensors))

    @cached_property
    def storages(self) -> list[Storage]:
        """The storage of each tensor, which is not kept."""
        return [storage_of(tensor) for tensor in self.tensors]

    @property
    def brought(self) -> list[torch.Tensor]:
        """What the rank brings to it: of an all_gather not what it gets."""
        return list(tensors_in(self._arguments[self.kind == "all_gather"]))

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of the group."""
        return compat.ranks_of(self._group)

    @cached_property
    def reduction(self) -> str:
        """What it reduces by, as "sum"; "" where it does not."""
        return compat.reduction_name(self._chosen) if self.operation.reduces else ""

    @property
    def root(self) -> int:
        """The rank of the world that a call with a root has for it."""
        return self.ranks[self._peer]
