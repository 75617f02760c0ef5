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

    ``backwards``: how many there were before it; ``versions``: how often its parameters had been
    written to; ``thrown``: so many forwards lost their gradients; ``steps``: so many were made.
    """

    forwards: int = 0
    backwards: int = 0
    versions: int = 0
    at: int = 0
    thrown: int = 0
    steps: int = 0


class ThrownAway:
    """The models under DDP of this process, as a discriminator that the generator's loss trains."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._of: weakref.WeakKeyDictionary[Model, _Ran] = weakref.WeakKeyDictionary()
        self._watching = False
        self._backward_at = 0

    def running(self, model: Model, backwards: int) -> None:
        """A forward begins, after so many backwards: what the last one's has given may be gone."""
        of = self._of.setdefault(model, _Ran())
        self._watching = of.forwards < _MOST
        if not self._watching or not any(one.requires_grad for _, one in model.replicated()):
            return
        versions = sum(one._version for _, one in model.replicated())
        made = of.forwards and backwards > of.backwards and versions == of.versions
        if made and model.is_cleared():
            of.thrown += 1
            if of.thrown >= _OFTEN and of.steps >= _OFTEN - 1:
                self._note(model, of)
                of.forwards = _MOST
                return
        of.forwards += 1
        of.backwards, of.versions, of.at = backwards, versions, site(self._log)

    def begin(self, _: Sequence[Any]) -> None:
        """A backward begins."""
        if self._watching:
            self._backward_at = site(self._log)

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
