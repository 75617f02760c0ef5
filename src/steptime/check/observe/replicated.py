"""Replicated: what ranks take as the same on all of them, as tensor parallelism does its inputs."""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import torch

from steptime.check.observe.arguments import given
from steptime.check.observe.contained import Contained
from steptime.check.observe.contents import readable, samples_of
from steptime.check.observe.observer import Observer
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.imports import once_imported
from steptime.record.places import site
from steptime.world import autograd, compat

REPLICATED = "replicated"
"""What is noted of a tensor that a rank says to have as all ranks of a mesh's dimension have it."""

_DTENSOR = "torch.distributed.tensor"
_MOST = 64
"""So many tensors are looked at among the same ranks: batches differ from the first on."""
_MOST_CALLS = 1024


class Replicated:
    """The tensors that this process gives to ``DTensor.from_local`` as ``Replicate()``."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._seen: Counter[tuple[int, ...]] = Counter()
        self.calls = 0

    def taken(self, tensor: Any, mesh: Any, placements: Sequence[Any]) -> None:
        """A tensor becomes the local part of a DTensor, which takes the ranks at their word."""
        plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.numel() > 0
        if torch.compiler.is_compiling() or not plain or not readable(tensor):
            return
        for dimension, placement in enumerate(placements):
            if not placement.is_replicate() or mesh.size(dimension) < 2:
                continue
            ranks = compat.ranks_of(mesh.get_group(dimension))
            self._seen[ranks] += 1
            if self._seen[ranks] <= _MOST:
                self._log.note(
                    observed=REPLICATED,
                    ranks=list(ranks),
                    number=self._seen[ranks],
                    shape=list(tensor.shape),
                    samples=samples_of(tensor),
                    of_gradient=autograd.in_backward(),
                    at=site(self._log),
                )


def _observe(log: Log, _: Calls) -> Callable[[], None]:
    replicated = Replicated(log)
    taken = Contained("replicated").of(replicated.taken)

    def watch() -> Callable[[], None]:
        kind: Any = sys.modules[_DTENSOR].DTensor
        from_local = kind.from_local

        @wraps(from_local)
        def taking(*arguments: Any, **options: Any) -> Any:
            if replicated.calls < _MOST_CALLS:
                replicated.calls += 1
                named = given(from_local, *arguments, **options)
                mesh, placements = named.get("device_mesh"), named.get("placements")
                if mesh is not None and placements is not None:
                    taken(named["local_tensor"], mesh, placements)
            return from_local(*arguments, **options)

        kind.from_local = staticmethod(taking)

        def remove() -> None:
            kind.from_local = staticmethod(from_local)

        return remove

    return once_imported(_DTENSOR, watch)


OBSERVER = Observer(_observe)
