"""What a rank writes down while it runs, in memory that is taken before the first step."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from steptime.program import Collective, Compute, Op, Recv, Send, Wait
from steptime.replay.extent import label_of
from steptime.timeline import Phase

ROW = np.dtype(
    [("place", np.int32), ("step", np.int32), ("start", np.float64), ("end", np.float64)]
)
_KEPT_ROWS = 5_000
"""So many intervals of a rank are kept, or those of two steps: the last ones."""

Floats: TypeAlias = NDArray[np.float64]


class Recording:
    """Seconds of each step by what they were spent on, and when the last ops began and ended.

    Steps count from 0, warm-up included; what is left of the last one counts as one step more.
    ``labels``: the axes of each op as one word, empty where it does not communicate.
    """

    def __init__(self, ops: Sequence[Op], steps: int) -> None:
        timed = sum(not isinstance(op, Wait) for op in ops)
        self._rows = np.zeros(max(_KEPT_ROWS, 2 * timed), ROW)
        self._written = 0
        self.labels = [
            label_of(op) if isinstance(op, Collective | Send | Recv) else "" for op in ops
        ]
        names = dict.fromkeys(("", "compute", "update", *self.labels))
        self._spent = {name: np.zeros(steps + 1) for name in names}
        self._under_way = {name: np.zeros(steps + 1) for name in self.labels if name}
        self._of_call = [self._under_way[label] if label else None for label in self.labels]
        self._of_compute = [
            self._spent["update" if op.phase == Phase.UPDATE else "compute"]
            if isinstance(op, Compute)
            else None
            for op in ops
        ]

    def spend(self, what: str, step: int, seconds: float) -> None:
        """The main stream spent time in a step waiting for the axes ``what``."""
        self._spent[what][step] += seconds

    def compute(self, place: int, step: int, seconds: float) -> None:
        """The Compute at a place of the list took so long of a step."""
        of = self._of_compute[place]
        if of is not None:
            of[step] += seconds

    def call(self, place: int, step: int, seconds: float) -> None:
        """The call at a place of the list was under way for so long."""
        of = self._of_call[place]
        if of is not None:
            of[step] += seconds

    def row(self, place: int, step: int, start: float, end: float) -> None:
        """The op at a place of the list ran from ``start`` to ``end``."""
        self._rows[self._written % self._rows.size] = (place, step, start, end)
        self._written += 1

    def spent(self, first: int, steps: int) -> dict[str, Floats]:
        """Seconds of some steps by what the main stream did, arrays of shape (steps,)."""
        return _of(self._spent, first, steps)

    def under_way(self, first: int, steps: int) -> dict[str, Floats]:
        """Seconds that the calls of some steps took, by axes, arrays of shape (steps,)."""
        return _of(self._under_way, first, steps)

    def rows(self, first: int) -> NDArray[np.void]:
        """The last rows, in the order in which they ended, from step ``first`` on; dtype ROW."""
        size = self._rows.size
        rows = np.roll(self._rows, -(self._written % size)) if self._written > size else self._rows
        rows = rows[: min(self._written, size)]
        return rows[rows["step"] >= first].copy()


def _of(found: dict[str, Floats], first: int, steps: int) -> dict[str, Floats]:
    return {name: of[first : first + steps] for name, of in found.items() if name or of.any()}
