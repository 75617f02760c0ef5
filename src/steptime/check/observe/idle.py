"""Idle: optimizers that a rank makes and never steps, and gradients cleared before their step."""

import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from steptime.check.observe.buffers import memory_of
from steptime.check.observe.contained import Contained
from steptime.check.observe.models import Models
from steptime.check.observe.moved import Moved
from steptime.check.observe.optimizers import parameters_of
from steptime.check.observe.replaced import after, all_of, before
from steptime.record.events import Log
from steptime.record.places import site

IDLE, STEPPED = "idle", "stepped"
"""What is noted of an optimizer that has gradients again and again and no step, and of another's
third step."""

_OFTEN = 3
_MOST_REMEMBERED = 10_000
_WRITING = ("broadcast", "recv", "scatter", "all_reduce", "all_gather")


@dataclass(eq=False)
class _Optimizer:
    """An optimizer by the order in which the rank makes them, and the line that made it.

    ``cleared``: how often its gradients were, unused; ``versions``: those of its parameters when
    they first were; ``cleared_after``: so many backwards, the last time; ``elements``: of its
    parameters. ``wraps``: its steps are those of another one, which may have a part of these.
    """

    number: int
    at: int
    elements: Sequence[int] = field(default=())
    steps: int = 0
    cleared: int = 0
    versions: int = 0
    cleared_after: int = -1
    wraps: bool = False


class Idle:
    """The optimizers of this process, whether they step or not."""

    def __init__(self, log: Log, models: Models) -> None:
        self._log = log
        self._models = models
        self._of: weakref.WeakKeyDictionary[Any, _Optimizer] = weakref.WeakKeyDictionary()
        self._made = self._stepped = 0
        self._written: dict[int, int] = {}
        self._stepping: list[_Optimizer] = []

    def install(self, contained: Contained) -> Callable[[], None]:
        """See optimizers as they are made and as their gradients are cleared."""
        owners = [torch.optim.Optimizer]
        return all_of(
            [
                after(owners, "__init__", contained.of(self._is_made)),
                before(owners, "zero_grad", contained.of(self._is_cleared)),
            ]
        )

    def note(self, moved: Moved) -> None:
        """A call is made: what it writes may be parameters, as of a server's workers."""
        waiting = self._made > self._stepped
        if waiting and moved.kind in _WRITING and not self._models.in_backward:
            if len(self._written) > _MOST_REMEMBERED:  # of memory that is there no more, mostly
                self._written.clear()
            for storage in moved.storages:
                self._written[storage.cdata] = self._models.backwards

    def stepping(self, optimizer: Any) -> None:
        """An optimizer is about to step."""
        one = self._of.get(optimizer)
        if one is None:
            return
        for other in self._stepping:
            other.wraps = True
        self._stepping.append(one)
        self._stepped += not one.steps
        one.steps += 1
        if one.steps == _OFTEN:
            self._tell(STEPPED, one, site(self._log))

    def stepped(self, optimizer: Any) -> None:
        """It has stepped, and all that it steps by."""
        one = self._of.get(optimizer)
        if one in self._stepping:
            del self._stepping[self._stepping.index(one) :]

    def parameters(self) -> set[int]:
        """The identities of what the rank's optimizers update, of wrapped ones what those do."""
        return {id(each) for each in self._updated()}

    def gradients(self) -> set[int]:
        """The memory of the gradients of these."""
        return {memory_of(each.grad) for each in self._updated() if each.grad is not None}

    def _updated(self) -> Iterator[torch.Tensor]:
        for optimizer, one in self._of.items():
            if not one.wraps:
                yield from parameters_of(optimizer)

    def was_cleared(self, optimizer: Any) -> bool:
        """Whether its gradients were cleared after the last backward."""
        one = self._of.get(optimizer)
        return one is not None and one.cleared_after == self._models.backwards

    def _is_made(self, _: Any, optimizer: Any, *__: Any, **___: Any) -> None:
        elements = [0 if is_lazy(one) else one.numel() for one in parameters_of(optimizer)]
        self._of[optimizer] = _Optimizer(self._made, site(self._log), elements)
        self._made += 1

    def _is_cleared(self, optimizer: Any, *_: Any, **__: Any) -> None:
        """Gradients are about to be cleared: used by now, but where there was no step."""
        one = self._of.get(optimizer)
        trained = [each for each in parameters_of(optimizer) if each.grad is not None]
        if one is None or not trained:
            return
        one.cleared_after = self._models.backwards
        if one.steps:
            return
        versions = sum(each._version for each in trained)
        if not one.cleared:
            one.versions = versions
        one.cleared += 1
        written = [self._written.get(memory_of(each), 0) for each in trained]
        if one.cleared == _OFTEN and versions == one.versions and not any(written):
            self._tell(IDLE, one, one.at)

    def _tell(self, what: str, one: _Optimizer, at: int) -> None:
        self._log.note(observed=what, number=one.number, elements=list(one.elements), at=at)
