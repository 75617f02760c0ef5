"""Recording: a rank's measurements while it runs, in memory allocated before the first step."""

from array import array
from collections.abc import Sequence
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Floats
from steptime.program import Compute, Op, Wait
from steptime.replay.extent import label_of
from steptime.timeline import Phase

ROW = np.dtype(
    [("place", np.int32), ("step", np.int32), ("start", np.float64), ("end", np.float64)]
)
_PACKED = Struct("=iidd")  # the same, for a write that takes a tenth of NumPy's time
_KEPT_ROWS = 5_000
"""Intervals that are kept of a rank, the last ones; but at least those of two steps."""


class Recording:
    """Seconds of each step by what they were spent on, and the intervals of the last ops.

    Steps count from 0, warm-up included; the time after the last one counts as one step more.
    ``labels``: the axes of each op as one word, empty where it does not communicate.
    """

    def __init__(self, ops: Sequence[Op], steps: int) -> None:
        timed = sum(not isinstance(op, Wait) for op in ops)
        self._rows = bytearray(ROW.itemsize * max(_KEPT_ROWS, 2 * timed))
        self._written = 0
        self.labels = [label_of(op) for op in ops]
        names = dict.fromkeys(("", "compute", "update", *self.labels))
        self._spent = {name: _zeros(steps + 1) for name in names}
        self._under_way = {name: _zeros(steps + 1) for name in self.labels if name}
        self._of_op = [
            self._spent["update" if op.phase == Phase.UPDATE else "compute"]
            if isinstance(op, Compute)
            else self._under_way.get(label)
            for op, label in zip(ops, self.labels, strict=True)
        ]

    def spend(self, what: str, step: int, seconds: float) -> None:
        """Add seconds that the main stream waited in a step for the axes ``what``."""
        self._spent[what][step] += seconds

    def ran(self, place: int, step: int, start: float, end: float, spent_in: int) -> None:
        """Record that the op at a place of the list ran in ``step``; the time is ``spent_in``'s."""
        at = self._written * ROW.itemsize % len(self._rows)
        _PACKED.pack_into(self._rows, at, place, step, start, end)
        self._written += 1
        of = self._of_op[place]
        if of is not None:
            of[spent_in] += end - start

    def spent(self, first: int, steps: int) -> dict[str, Floats]:
        """Seconds of some steps by what the main stream did, arrays of shape (steps,)."""
        return _of(self._spent, first, steps)

    def under_way(self, first: int, steps: int) -> dict[str, Floats]:
        """Seconds that calls were in progress in some steps, by axes, arrays of shape (steps,)."""
        return _of(self._under_way, first, steps)

    def rows(self, first: int) -> NDArray[np.void]:
        """The last rows, in the order in which they ended, from step ``first`` on; dtype ROW."""
        rows = np.frombuffer(self._rows, ROW)
        rows = np.roll(rows, -self._written) if self._written > rows.size else rows[: self._written]
        return rows[rows["step"] >= first].copy()


def _zeros(steps: int) -> "array[float]":
    return array("d", bytes(8 * steps))


def _of(found: dict[str, "array[float]"], first: int, steps: int) -> dict[str, Floats]:
    return {
        name: np.array(of[first : first + steps]) for name, of in found.items() if name or any(of)
    }
