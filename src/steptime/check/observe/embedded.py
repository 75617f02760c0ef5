"""Embedded: how much each rank brings to the sum of an embedding that ranks share."""

from typing import Any

from steptime.check.observe.contents import readable
from steptime.check.observe.functions import nodes_of, within_function
from steptime.check.observe.models import Models
from steptime.check.observe.moved import Moved
from steptime.record.events import Log
from steptime.record.places import site

EMBEDDED = "embedded"
"""What is noted of the first sum of what an embedding has given."""

_NODE = "EmbeddingBackward0"
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
        if readable(tensor) and any(_is_embedded(node) for node in nodes_of(given)):
            self._looked = _MOST_LOOKED
            self._log.note(
                observed=EMBEDDED,
                ranks=list(moved.ranks),
                elements=tensor.numel(),
                filled=int(tensor.detach().count_nonzero()),
                at=site(self._log),
            )


def _is_embedded(node: Any) -> bool:
    """Whether a node of autograd's graph, or one a little before it, is an embedding's."""
    ahead = [node]
    for _ in range(_DEEPEST):
        if any(one.name() == _NODE for one in ahead):
            return True
        ahead = [before for one in ahead for before, _ in one.next_functions if before is not None]
    return False
