"""In vain: optimizers whose steps train nothing, for no backward reaches what they train."""

import weakref
from dataclasses import dataclass
from typing import Any

from steptime.check.observe.idle import Idle
from steptime.check.observe.models import Models
from steptime.check.observe.optimizers import parameters_of
from steptime.record.events import Log
from steptime.record.places import site

IN_VAIN = "in vain"
"""What is noted of an optimizer whose parameters get no gradient by any backward."""
_LEAST = 3  # steps


@dataclass(eq=False)
class _Tried:
    """The steps of an optimizer: ``made`` of them, and ``in_vain`` those after backwards.

    ``trains``: a backward has given one of its parameters a gradient, and no more is counted.
    ``backwards``: how many there were by its last step; ``at``: where that was, where none was.
    """

    optimizer: str
    made: int = 0
    in_vain: int = 0
    trains: bool = False
    backwards: int = 0
    at: int = 0


class InVain:
    """What the optimizers of this process have tried, until they train something."""

    def __init__(self, log: Log, models: Models, idle: Idle) -> None:
        self._log = log
        self._models = models
        self._idle = idle
        self._tried: weakref.WeakKeyDictionary[Any, _Tried] = weakref.WeakKeyDictionary()
        self._all: list[_Tried] = []

    def stepping(self, optimizer: Any) -> None:
        """An optimizer is about to step: tell of it where it has made no other step for a while."""
        one = self._tried.get(optimizer)
        if one is None:
            one = self._tried[optimizer] = _Tried(type(optimizer).__name__)
            self._all.append(one)
        one.made += 1
        backwards, one.backwards = one.backwards, self._models.backwards
        if any(parameter.grad is not None for parameter in parameters_of(optimizer)):
            one.trains = True
        elif not one.trains and self._models.backwards > backwards:
            one.in_vain += 1
            if one.in_vain == _LEAST:
                cleared = self._idle.was_cleared(optimizer)
                self._note(one, site(self._log), cleared, held_back=self._models.holds_back)
        elif not one.trains and not self._models.backwards:
            one.at = site(self._log)

    def end(self) -> None:
        """The process ends: tell of optimizers that it has stepped without any backward."""
        for one in self._all:
            if not self._models.backwards and not one.trains and one.made >= _LEAST:
                self._note(one, one.at, cleared=False, held_back=False)

    def _note(self, one: _Tried, at: int, cleared: bool, held_back: bool) -> None:
        self._log.note(
            observed=IN_VAIN,
            optimizer=one.optimizer,
            cleared=cleared,
            held_back=held_back,
            without_backward=not self._models.backwards,
            at=at,
        )
