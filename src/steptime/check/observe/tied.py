"""Tied: the weights of a pipeline's stages by what they hold, and which of them embed."""

import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from steptime.check.observe.backwards import nodes_of, watched_backwards
from steptime.check.observe.contained import Contained, ContainedWatcher, watched_calls
from steptime.check.observe.contents import hash_of, readable
from steptime.check.observe.observer import Observer
from steptime.check.observe.optimizers import parameters_of
from steptime.check.observe.replaced import all_of
from steptime.check.observe.tensors import is_constant, is_sharded
from steptime.record.calls import Calls
from steptime.record.events import Log
from steptime.record.operations import Operation
from steptime.record.places import site

TIED = "tied"
"""What is noted of a stage's weights before the first step and the second."""

_LEAST_ELEMENTS, _MOST = 64, 500
_MOST_NODES = 20_000
_LOOKS = 2


class Tied:
    """The optimizer of this process that stepped first, if its rank exchanges messages."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._embedding: dict[int, weakref.ref[torch.Tensor]] = {}
        self._optimizer: weakref.ref[Any] | None = None
        self._exchanges = False
        self._looks = 0

    def begin(self, roots: Sequence[Any]) -> None:
        """A backward begins: remember which weights it will have looked up in."""
        if self._looks or not self._exchanges:
            return
        for node in nodes_of(roots, _MOST_NODES):
            if node.name() == "EmbeddingBackward0":
                weight = getattr(node.next_functions[0][0], "variable", None)
                if weight is not None:
                    self._embedding[id(weight)] = weakref.ref(weight)

    def issued(self, operation: Operation, *_: Any, **__: Any) -> None:
        """A call is made."""
        self._exchanges = self._exchanges or operation.is_message

    def stepping(self, optimizer: Any, *_: Any) -> None:
        """An optimizer is about to step."""
        if self._looks == _LOOKS or not self._exchanges:
            return
        if self._optimizer is None:
            self._optimizer = weakref.ref(optimizer)
        if self._optimizer() is not optimizer:
            return
        self._looks += 1
        weights = list(_weights(optimizer))[:_MOST]
        self._log.note(
            observed=TIED,
            embeds=[self._is_embedding(one) for one in weights],
            shapes=[list(one.shape) for one in weights],
            hashes=[hash_of([one]) for one in weights],
            at=site(self._log),
        )

    def _is_embedding(self, weight: torch.Tensor) -> bool:
        known = self._embedding.get(id(weight))
        return known is not None and known() is weight


def _weights(optimizer: Any) -> Iterator[torch.Tensor]:
    """The matrices that an optimizer trains, but for those that two ranks may have alike."""
    for one in parameters_of(optimizer):
        trained = one.grad is not None and not is_sharded(one) and readable(one)
        if trained and one.ndim == 2 and one.numel() >= _LEAST_ELEMENTS and not is_constant(one):
            yield one


def _observe(log: Log, calls: Calls) -> Callable[[], None]:
    contained = Contained("tied weights")
    tied = Tied(log)
    return all_of(
        [
            watched_calls(calls, ContainedWatcher(contained, tied.issued)),
            watched_backwards(contained, tied.begin),
            register_optimizer_step_pre_hook(contained.of(tied.stepping)).remove,
        ]
    )


OBSERVER = Observer(_observe)
