"""Wiped: gradients of micro-batches that are cleared before DDP reduces any."""

import weakref
from dataclasses import dataclass

from steptime.check.observe.model import Model
from steptime.record.events import Log
from steptime.record.places import site

WIPED = "wiped"
"""What is noted of the third step of a model whose first micro-batches leave no gradient."""

_OFTEN = 3


@dataclass(eq=False)
class _Accumulated:
    """A model's micro-batches since its last step.

    ``quiet``: the last was run within ``no_sync``, after ``backwards``, of parameters that had been
    written to ``versions`` times. ``wiped``: so many have lost their gradients; ``steps``: of so
    many steps.
    """

    quiet: bool = False
    backwards: int = 0
    versions: int = 0
    wiped: int = 0
    steps: int = 0


class Wiped:
    """The models under DDP of this process that accumulate gradients, and lose them."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._of: weakref.WeakKeyDictionary[Model, _Accumulated] = weakref.WeakKeyDictionary()

    def running(self, model: Model, backwards: int, *, quiet: bool) -> None:
        """A forward through DDP begins, after so many backwards.

        What was made within ``no_sync`` is reduced with what comes after it. Where it is gone by
        then, and changed no parameter as SAM's first gradient does, it was made for nothing.
        """
        of = self._of.setdefault(model, _Accumulated())
        if not quiet and not of.quiet:
            return
        versions = sum(one._version for _, one in model.replicated())
        if of.quiet and backwards > of.backwards and versions == of.versions:
            of.wiped += model.is_cleared()
        of.quiet, of.backwards, of.versions = quiet, backwards, versions

    def stepped(self, model: Model) -> None:
        """A step of the model was made, by what its last micro-batch has left."""
        of = self._of.get(model)
        if of is None:
            return
        if of.wiped and not of.quiet:
            of.steps += 1
            if of.steps == _OFTEN:
                self._log.note(
                    observed=WIPED,
                    model=f"{model.name} {model.number}",
                    batches=of.wiped,
                    at=site(self._log),
                )
        of.quiet, of.wiped = False, 0
