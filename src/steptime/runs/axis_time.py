"""What a step spends along each axis of parallelism, as a record keeps it."""

from dataclasses import dataclass

import numpy as np

from steptime.arrays import Floats
from steptime.timeline.by_axis import ByAxis


@dataclass(frozen=True, kw_only=True)
class AxisTime:
    """Seconds of a step along an axis, or along several joined by ``+``: means of the ranks.

    ``under_way_s``: calls of the axis are; ``exposed_s``: the rank waits for them and neither
    computes nor updates; ``hidden_s``: they are under way behind compute or update. The exposed
    times of all axes add up to the step's exposed communication, but for what a rank waits while
    none of its calls is under way. The others are those of the rank with the most of each.
    """

    axis: str
    under_way_s: float
    exposed_s: float
    hidden_s: float
    most_under_way_s: float
    most_exposed_s: float
    most_hidden_s: float


def axis_times(found: ByAxis, step_s: float) -> list[AxisTime]:
    """The times of each axis, which divide ``step_s`` as they divide all steps of all ranks."""
    scale = step_s / float(found.duration.mean()) if found.duration.any() else 0.0
    ranks, row = np.unique(found.rank, return_inverse=True)
    steps = np.bincount(row)

    def of_ranks(times: Floats) -> Floats:
        """The means of each rank, shape (axes, ranks)."""
        sums = np.zeros((len(ranks), len(found.axes)))
        np.add.at(sums, row, times)
        return np.asarray(scale * sums.T / steps)

    columns = {
        "under_way_s": of_ranks(found.under_way),
        "exposed_s": of_ranks(found.exposed),
        "hidden_s": of_ranks(found.hidden),
    }
    return [
        AxisTime(
            axis=axis,
            **{name: float(of[place].mean()) for name, of in columns.items()},
            **{f"most_{name}": float(of[place].max()) for name, of in columns.items()},
        )
        for place, axis in enumerate(found.axes)
    ]
