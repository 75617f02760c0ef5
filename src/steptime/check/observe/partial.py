"""Partial: sums of a forward that others take up, though no gradient is summed on its way back."""

from collections import deque
from collections.abc import Sequence
from typing import Any

from steptime.check.observe.functions import nodes_of, within_function
from steptime.check.observe.models import Models
from steptime.check.observe.moved import Moved
from steptime.record.events import Log
from steptime.record.places import site
from steptime.world import autograd

PARTIAL = "partial"
"""What is noted of two sums of one forward, of which the second comes of the first."""

_MARK = "steptime: summed up"
_BACKWARDS = 2
_LEAST_VECTOR = 8  # elements: a loss or a count is summed up, too
_MOST_CALLS, _MOST_NODES = 64, 2000


class Partial:
    """What ranks sum up in forwards that autograd follows, until some backwards have been made."""

    def __init__(self, log: Log, models: Models) -> None:
        self._log = log
        self._models = models
        self._functions: dict[type, tuple[int, ...]] = {}
        self._found: dict[tuple[int, ...], tuple[int, int]] = {}
        self._answered: set[tuple[int, ...]] = set()
        self._looked = 0
        self._over = False

    def note(self, moved: Moved) -> None:
        """A call is made."""
        if self._over:
            return
        if self._models.in_backward:
            self._answered.add(moved.ranks)
        elif moved.kind == "all_reduce" and moved.reduction in ("sum", "avg"):
            vector = moved.tensors and moved.tensors[0].numel() >= _LEAST_VECTOR
            if vector and self._looked < _MOST_CALLS and not self._models.backwards:
                self._looked += 1
                self._follow(moved)

    def _follow(self, moved: Moved) -> None:
        """Look whether what is summed up comes of another sum, and remember it as one."""
        within, ranks, at = within_function(), moved.ranks, site(self._log)
        if within is not None and not within.follows:
            return
        nodes = nodes_of(moved.tensors if within is None else within.given)
        if ranks not in self._found and (before := self._sum_before(nodes, ranks)):
            self._found[ranks] = before, at
        if within is not None:
            self._functions[autograd.node_of(within.function)] = (*ranks, at)
        for node in nodes if within is None else ():
            node.metadata[_MARK] = (*ranks, at)

    def _sum_before(self, nodes: Sequence[Any], ranks: tuple[int, ...]) -> int:
        """The place of a sum among these ranks by which the nodes came about; else 0."""
        ahead, seen = deque(nodes), set(nodes)
        while ahead and len(seen) < _MOST_NODES:
            node = ahead.popleft()
            *among, at = self._functions.get(type(node)) or node.metadata.get(_MARK) or (0,)
            if tuple(among) == ranks:
                return int(at)
            new = {one for one, _ in node.next_functions if one is not None} - seen
            seen |= new
            ahead.extend(new)
        return 0

    def stepping(self) -> None:
        """An optimizer is about to step: the backwards of what it steps by are over."""
        if self._over or self._models.backwards < _BACKWARDS:
            return
        self._over = True
        for ranks, (at, then) in self._found.items():
            if ranks not in self._answered:
                self._log.note(observed=PARTIAL, ranks=list(ranks), at=at, then_at=then)
