"""One step of a strategy, cut out of a timeline: all ranks, with a little of the steps beside."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from steptime.timeline import Source, Timeline

_BESIDE = 0.04  # of the step: what is shown before its begin and after its end


@dataclass(frozen=True, eq=False)
class Window:
    """One step of one strategy.

    ``whole`` and ``steps``: the STEP intervals of all ranks and of those shown, in order of rank.
    ``rows``: the intervals of those, of phase STEP too, that overlap the step or what is shown
    beside it.
    """

    whole: NDArray[np.void]
    steps: NDArray[np.void]
    rows: NDArray[np.void]
    number: int
    count: int

    @property
    def start(self) -> float:
        """When the first rank began, in seconds."""
        return float(self.whole["start"].min())

    @property
    def length(self) -> float:
        """From then to when the last rank ended, in seconds."""
        return float(self.whole["end"].max()) - self.start

    @property
    def ranks(self) -> NDArray[np.int32]:
        """The ranks shown, in order."""
        return np.asarray(self.steps["rank"], np.int32)

    def of_ranks(self, ranks: NDArray[np.int32]) -> "Window":
        """The same with these ranks alone."""
        return replace(
            self,
            steps=self.steps[np.isin(self.steps["rank"], ranks)],
            rows=self.rows[np.isin(self.rows["rank"], ranks)],
        )

    def of_rows(self, rows: NDArray[np.intp]) -> "Window":
        """The same with these rows alone."""
        return replace(self, rows=self.rows[rows])


def by_rank(steps: NDArray[np.void]) -> NDArray[np.void] | None:
    """The steps that all ranks have, shape (ranks, steps), or None where there are none.

    ``steps`` are STEP intervals in order of rank and start.
    """
    if not len(steps):
        return None
    _, first = np.unique(steps["rank"], return_index=True)
    counts = np.diff(np.append(first, len(steps)))
    return np.asarray(steps[first[:, None] + np.arange(counts.min())])


def default_step(table: NDArray[np.void], source: Source) -> int:
    """The (lower) median step of those measured; the last of others, which is the steady state."""
    if source != "measured":
        return int(table.shape[1]) - 1
    length = table["end"].max(axis=0) - table["start"].min(axis=0)
    return int(np.argsort(length, kind="stable")[(len(length) - 1) // 2])


def window(timeline: Timeline, table: NDArray[np.void], step: int) -> Window:
    """The step of this number in ``table``, as ``by_rank`` gives it."""
    steps = table[:, step]
    start, end = float(steps["start"].min()), float(steps["end"].max())
    beside = _BESIDE * (end - start)
    rows = timeline.between(start - beside, end + beside).intervals
    rows = rows[np.isin(rows["rank"], steps["rank"])]
    return Window(steps, steps, rows, step, table.shape[1])
