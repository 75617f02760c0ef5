"""Phases: each step's time cut into compute, update, exposed communication, and other."""

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Flags, Floats
from steptime.timeline.timeline import Phase, Timeline

PHASES = np.dtype(
    [
        ("rank", np.int32),
        ("step", np.int32),
        ("start", np.float64),  # the fields below are seconds
        ("duration", np.float64),
        ("compute", np.float64),
        ("exposed_comm", np.float64),
        ("update", np.float64),
        ("other", np.float64),
        ("communication", np.float64),  # exposed or hidden
    ]
)


def phases_of_steps(timeline: Timeline, name: str) -> NDArray[np.void]:
    """Phases of every step called ``name``, dtype PHASES, in order of rank and start.

    Every instant of a step counts once: as compute while anything computes and does not wait, else
    as update, else as exposed communication while anything communicates or waits, else as other.
    So the four add up to the duration, and communication hidden behind compute costs nothing.
    """
    steps = timeline.steps_named(name)
    phases = np.zeros(len(steps), dtype=PHASES)
    for field in ("rank", "step", "start"):
        phases[field] = steps[field]
    phases["duration"] = steps["end"] - steps["start"]
    for rank in np.unique(steps["rank"]):
        own = timeline.intervals[timeline.intervals["rank"] == rank]
        of_rank = phases["rank"] == rank
        phases[of_rank] = _phases_of_rank(own, phases[of_rank])
    return phases


def _phases_of_rank(rows: NDArray[np.void], steps: NDArray[np.void]) -> NDArray[np.void]:
    """Cut one rank's time at every start and end, and judge each piece by what covers it."""
    ends = steps["start"] + steps["duration"]
    edges = np.unique(np.concatenate([rows["start"], rows["end"], steps["start"], ends]))
    length = np.diff(edges)
    waiting = _covered(rows, Phase.WAIT, edges)
    computing = _covered(rows, Phase.COMPUTE, edges) & ~waiting
    updating = _covered(rows, Phase.UPDATE, edges) & ~waiting & ~computing
    communicating = _covered(rows, Phase.COMMUNICATION, edges) | waiting
    exposed = communicating & ~computing & ~updating
    first = np.searchsorted(edges, steps["start"])
    last = np.searchsorted(edges, ends)

    def total(pieces: Flags) -> Floats:
        running = np.zeros(len(edges))
        np.cumsum(length * pieces, out=running[1:])
        return np.asarray(running[last] - running[first])

    filled = steps.copy()
    filled["compute"] = total(computing)
    filled["update"] = total(updating)
    filled["exposed_comm"] = total(exposed)
    filled["communication"] = total(communicating)
    filled["other"] = total(~(computing | updating | exposed))
    return filled


def _covered(rows: NDArray[np.void], phase: Phase, edges: Floats) -> Flags:
    """Whether an interval of this phase covers each piece between two edges, shape (edges - 1,)."""
    rows = rows[rows["phase"] == phase]
    change = np.zeros(len(edges), dtype=np.int64)
    np.add.at(change, np.searchsorted(edges, rows["start"]), 1)
    np.add.at(change, np.searchsorted(edges, rows["end"]), -1)
    return np.cumsum(change)[:-1] > 0
