"""Embedded: how much each rank brings to the sum of an embedding that ranks share."""

from typing import Any

from steptime.check.observe.contents import readable
from steptime.check.observe.functions import nodes_of, within_function
from steptime.check.observe.models import Models
from steptime.check.observe.moved import Moved
from steptime.record.events import Log
from steptime.record.places import site
from steptime.world import autograd

EMBEDDED = "embedded"
"""What is noted of the first sum of what an embedding has given."""

_DEEPEST = 4  # nodes between the embedding and the sum, as of a mask
_MOST_LOOKED = 16  # calls


class Embedded:
    """The sums that this process makes in its first forward, until one is of an embedding."""

    def __init__(self, log: Log, models: Models) -> None:
        self._log = log
        self._models = models
        self._looked = 0

    def note(self, moved: Moved) -> None:
        """A call is made."""
        if self._looked == _MOST_LOOKED or moved.kind != "all_reduce" or moved.reduction != "sum":
            return
        if self._models.backwards or self._models.in_backward or len(moved.tensors) != 1:
            return
        self._looked += 1
        within, tensor = within_function(), moved.tensors[0]
        given = moved.tensors if within is None else within.given
        looked_up = max(map(_looked_up, nodes_of(given)), default=0)
        # A loss of what comes of an embedding sums up one number a token, and no rows.
        if looked_up and tensor.numel() > looked_up and readable(tensor):
            self._looked = _MOST_LOOKED
            self._log.note(
                observed=EMBEDDED,
                ranks=list(moved.ranks),
                elements=tensor.numel(),
                filled=int(tensor.detach().count_nonzero()),
                at=site(self._log),
            )


def _looked_up(node: Any) -> int:
    """How many rows an embedding has given, by the nearest before a node of autograd's graph."""
    ahead = [node]
    for _ in range(_DEEPEST):
        if rows := max(map(autograd.rows_looked_up, ahead), default=0):
            return rows
        ahead = [before for one in ahead for before, _ in one.next_functions if before is not None]
    return 0
