"""One way: functions of autograd that gather from all ranks, and send no gradient back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from steptime.check.observe.backwards import nodes_of
from steptime.check.observe.functions import within_function
from steptime.check.observe.models import Models
from steptime.check.observe.moved import Moved
from steptime.record.events import Log
from steptime.record.places import site
from steptime.world.autograd import node_of

ONE_WAY = "one way"
"""What is noted of a function whose forward calls other ranks, and whose backward calls none."""

FOLLOWED = "followed"
"""What is noted of a line whose calls autograd follows, by such a function."""

_BACKWARDS = 3
_MOST_LOOKED = 1000  # calls, of a script that may make no backward
_MOST_NODES = 20_000  # of a graph
_KINDS = ("all_gather", "all_to_all")


@dataclass(frozen=True)
class _Call:
    """A call in the forward of a function that autograd is to follow."""

    kind: str
    ranks: tuple[int, ...]
    at: int
    backwards: int


class OneWay:
    """The functions of autograd whose forwards make calls, until some backwards have been made.

    Only those that a backward comes through: what is gathered to be kept, or looked at, has none.
    """

    def __init__(self, log: Log, models: Models) -> None:
        self._log = log
        self._models = models
        self._forwards: dict[type, _Call] = {}
        self._answered: set[type] = set()
        self._reached: set[type] = set()
        self._noted: set[int] = set()
        self._looked = 0
        self._over = False

    def note(self, moved: Moved) -> None:
        """A call is made."""
        if self._over or self._looked == _MOST_LOOKED:
            return
        self._looked += 1
        within = within_function()
        if within is None:
            return
        at = site(self._log)
        if at not in self._noted:
            self._noted.add(at)
            self._log.note(observed=FOLLOWED, at=at)
        if within.backward:
            self._answered.add(within.function)
        elif within.follows and moved.kind in _KINDS and within.function not in self._forwards:
            self._forwards[within.function] = _Call(
                moved.kind, moved.ranks, at, self._models.backwards
            )

    def begin(self, roots: Sequence[Any]) -> None:
        """A backward begins."""
        sought = self._forwards.keys() - self._reached - self._answered
        if self._over or not sought:
            return
        of_nodes = {node_of(function): function for function in sought}
        for node in nodes_of(roots, _MOST_NODES):
            if (function := of_nodes.get(type(node))) is not None:
                self._reached.add(function)

    def stepping(self) -> None:
        """An optimizer is about to step: what was run before has been followed back by now."""
        if self._over or self._models.backwards < _BACKWARDS:
            return
        self._over = True
        if self._looked == _MOST_LOOKED:
            return  # what was not looked at may have answered
        for function, call in self._forwards.items():
            silent = function in self._reached and function not in self._answered
            if silent and call.backwards + 1 < self._models.backwards:
                self._log.note(
                    observed=ONE_WAY,
                    function=function.__name__,
                    call=call.kind,
                    ranks=list(call.ranks),
                    at=call.at,
                )
