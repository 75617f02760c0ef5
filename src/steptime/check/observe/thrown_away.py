"""Thrown away: gradients that DDP reduces, and that are cleared before any step is made by them."""

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from steptime.check.observe.model import Model
from steptime.record.events import Log
from steptime.record.places import site

THROWN_AWAY = "thrown away"
"""What is noted once of a model that steps, and as often loses what it has reduced: its forward's
line and the backward's, and how many bytes the gradients have."""

_OFTEN, _MOST = 3, 64  # times; forwards that are looked at


@dataclass(eq=False)
class _Ran:
    """A model's last forward whose backward DDP reduces, the number ``forwards``, at a line.

    ``versions``, ``given``: how often its parameters and their gradients had been written to;
    ``made``: a backward has given them some since; ``thrown``: so many forwards lost these;
    ``steps``: so many were made.
    """

    forwards: int = 0
    versions: int = 0
    given: int = 0
    made: bool = False
    at: int = 0
    thrown: int = 0
    steps: int = 0


class ThrownAway:
    """The models under DDP of this process, as a discriminator that the generator's loss trains."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._of: weakref.WeakKeyDictionary[Model, _Ran] = weakref.WeakKeyDictionary()
        self._running: dict[Model, _Ran] = {}
        self._backward_at = 0

    def running(self, model: Model) -> None:
        """A forward begins: what the backward of the last one has given may be gone."""
        of = self._of.setdefault(model, _Ran())
        if of.forwards == _MOST:
            return
        versions = sum(one._version for _, one in model.replicated())
        if of.made and versions == of.versions and model.is_cleared():
            of.thrown += 1
            if of.thrown >= _OFTEN and of.steps >= _OFTEN - 1:
                self._note(model, of)
                of.forwards = _MOST
                return
        of.forwards += 1
        of.made, of.versions, of.at = False, versions, site(self._log)
        of.given = _given(model)
        self._running[model] = of

    def begin(self, _: Sequence[Any]) -> None:
        """A backward begins."""
        if self._running:
            self._backward_at = site(self._log)

    def end(self) -> None:
        """It has ended: of models that run for another's sake alone it gives no gradient."""
        for model, of in self._running.items():
            of.made = _given(model) != of.given
        self._running.clear()

    def stepped(self, model: Model) -> None:
        """A step of the model was made."""
        of = self._of.get(model)
        if of is not None:
            of.steps += 1

    def _note(self, model: Model, of: _Ran) -> None:
        self._log.note(
            observed=THROWN_AWAY,
            model=model.name,
            nbytes=sum(one.nbytes for _, one in model.replicated() if one.requires_grad),
            backward_at=self._backward_at,
            at=of.at,
        )


def _given(model: Model) -> int:
    """How often a model's gradients have been written to, but for those that are gone."""
    grads = (one.grad for _, one in model.replicated())
    return sum(grad._version + 1 for grad in grads if grad is not None)
