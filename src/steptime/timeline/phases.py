"""Phases: each step's time cut into compute, update, exposed communication, and other.

What is exposed has four parts. *Transfer*: bytes of one of the rank's calls are on their way. The
rest is *waiting* for a rank that has not come to a call yet, and has up to three reasons, told off
in this order:

- *bubble*: as far as the pipeline's own schedule leaves a stage without work, on a network that
  costs nothing: (p − 1)/m of a stage's work for 1F1B and GPipe (Narayanan et al. 2021, §2.2);
- *imbalance*: as far as the busiest rank computes and updates longer in the step than this one;
- *dependency*: what is left. The rank that it waited for did not work longer, but waited, moved
  bytes or did something else itself.

These are POP's factors as seconds of a rank (see ``efficiency``): imbalance is the lack of load
balance, bubble and dependency that of serialisation, and transfer that of transfer. On a network
that costs nothing transfer is 0, among ranks that work as long imbalance is, and with one stage
bubble is.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Flags, Floats, Longs
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
        ("transfer", np.float64),  # these four add up to exposed_comm
        ("bubble", np.float64),
        ("imbalance", np.float64),
        ("dependency", np.float64),
    ]
)
EXPOSED = ("transfer", "bubble", "imbalance", "dependency")
"""The parts of exposed communication."""

_ROUNDING = 1e-9  # of a rank's work: what is less comes from adding up times


def phases_of_steps(timeline: Timeline, name: str) -> NDArray[np.void]:
    """Phases of every step called ``name``, dtype PHASES, in order of rank and start.

    Every instant of a step counts once: as compute while anything computes and does not wait, else
    as update, else as exposed communication while anything communicates or waits, else as other.
    So the four add up to the duration, and communication hidden behind compute costs nothing. The
    reasons of waiting compare the ranks that ``timeline`` holds, step by step.
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
    _, step = np.unique(phases["step"], return_inverse=True)
    give_reasons(phases, step, timeline.bubble)
    return phases


def give_reasons(found: NDArray[np.void], step: NDArray[np.integer], bubble: float) -> None:
    """Tell the waiting off by its reasons, in place: all of it is in ``dependency`` to begin with.

    ``found``: with all else filled in, of dtype PHASES or its fields at least. ``step``: a number
    from 0 on of the step that each row is of, shape (rows,). ``bubble``: that of the schedule, as a
    part of what its busiest rank works.
    """
    work = found["compute"] + found["update"]
    longest, busiest = (_most(of, step) for of in (work, work + found["transfer"]))
    for reason, explains in (("bubble", bubble * busiest), ("imbalance", longest - work)):
        left = found["dependency"]
        told = np.where(explains > _ROUNDING * longest, np.minimum(left, explains), 0.0)
        found[reason] = np.where(left - told > _ROUNDING * longest, told, left * (told > 0))
        found["dependency"] = left - found[reason]


def _most(of_row: Floats, step: NDArray[np.integer]) -> Floats:
    """For each row the most of any row of its step, shape (rows,)."""
    most = np.zeros(int(step.max(initial=-1)) + 1)
    np.maximum.at(most, step, of_row)
    return np.asarray(most[step])


@dataclass(frozen=True, eq=False)
class Pieces:
    """One rank's time cut at every start and end, and what each piece between two edges counts as.

    ``edges``: seconds, shape (pieces + 1,); the others are of shape (pieces,). ``computing``,
    ``updating`` and ``exposed`` exclude each other; ``communicating`` is exposed or hidden;
    ``moving``: bytes of one of the rank's calls are on their way. ``first`` and ``last``: the edges
    where each step begins and ends.
    """

    edges: Floats
    computing: Flags
    updating: Flags
    exposed: Flags
    communicating: Flags
    moving: Flags
    first: Longs
    last: Longs

    def total(self, chosen: Flags) -> Floats:
        """The seconds of the ``chosen`` pieces in each step, shape (steps,)."""
        running = np.zeros(len(self.edges))
        np.cumsum(np.diff(self.edges) * chosen, out=running[1:])
        return np.asarray(running[self.last] - running[self.first])


def pieces_of(rows: NDArray[np.void], start: Floats, end: Floats) -> Pieces:
    """The pieces of one rank's intervals ``rows``; its steps are from each ``start`` to ``end``."""
    ready = np.clip(rows["ready"], rows["start"], rows["end"])
    edges = np.unique(np.concatenate([rows["start"], rows["end"], ready, start, end]))

    def of_phase(phase: Phase, since: Floats) -> Flags:
        own = rows["phase"] == phase
        return covered(since[own], rows["end"][own], edges)

    waiting = of_phase(Phase.WAIT, rows["start"])
    computing = of_phase(Phase.COMPUTE, rows["start"]) & ~waiting
    updating = of_phase(Phase.UPDATE, rows["start"]) & ~waiting & ~computing
    communicating = of_phase(Phase.COMMUNICATION, rows["start"]) | waiting
    return Pieces(
        edges=edges,
        computing=computing,
        updating=updating,
        exposed=communicating & ~computing & ~updating,
        communicating=communicating,
        moving=of_phase(Phase.COMMUNICATION, ready),
        first=np.searchsorted(edges, start),
        last=np.searchsorted(edges, end),
    )


def covered(starts: Floats, ends: Floats, edges: Floats) -> Flags:
    """Whether an interval covers each piece between two edges, shape (edges - 1,)."""
    change = np.zeros(len(edges), dtype=np.int64)
    np.add.at(change, np.searchsorted(edges, starts), 1)
    np.add.at(change, np.searchsorted(edges, ends), -1)
    return np.cumsum(change)[:-1] > 0


def _phases_of_rank(rows: NDArray[np.void], steps: NDArray[np.void]) -> NDArray[np.void]:
    """Judge each piece of one rank's time by what covers it."""
    of = pieces_of(rows, steps["start"], steps["start"] + steps["duration"])
    filled = steps.copy()
    filled["compute"] = of.total(of.computing)
    filled["update"] = of.total(of.updating)
    filled["exposed_comm"] = of.total(of.exposed)
    filled["transfer"] = of.total(of.exposed & of.moving)
    filled["dependency"] = of.total(of.exposed & ~of.moving)
    filled["communication"] = of.total(of.communicating)
    filled["other"] = of.total(~(of.computing | of.updating | of.exposed))
    return filled
