"""Simulation: the result of simulated steps, assembled from the times of all ops."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Floats, Ints
from steptime.program import Collective, Compute, Op, Program, Recv, Send, Wait
from steptime.simulate.division import starts_of
from steptime.simulate.network.series import LinkSeries
from steptime.simulate.queues import Queues, streams_of
from steptime.timeline import EXPOSED, INTERVAL, Phase, Timeline

Fidelity: TypeAlias = Literal["message", "collective"]

MOST_SHOWN = 64
"""Ranks that a timeline shows; of more ranks, it shows one of each class."""

STEP_STREAM = "step"

RANK = np.dtype(
    [
        ("rank", np.int32),
        ("step_s", np.float64),
        ("compute_s", np.float64),
        ("exposed_comm_s", np.float64),
        ("update_s", np.float64),
        ("other_s", np.float64),
        *[(f"{part}_s", np.float64) for part in EXPOSED],
    ]
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Simulation:
    """Some steps of a program on a cluster, simulated.

    ``program``: as it was simulated, with the costs that the cluster's calls have beyond their
    messages as ops of their own (``call_costs.py``, ``work.py``). ``timeline``, which has its ops,
    shows the ranks ``shown_ranks``, shape (shown,); every other figure is of all. ``step_s``: each
    step as long as its slowest rank took, in seconds, shape (steps,). ``ranks``: how long the last
    step took each rank, its four phases, which add up to it, and the parts of exposed
    communication: dtype RANK, shape (ranks,). ``ideal_step_s``: what a step takes where calls take
    no time. ``pairs``: bytes of a step from each rank to each other, shape (ranks, ranks), None
    where there are very many. ``bytes_sent`` and ``bytes_received``, shape (ranks,),
    ``link_bytes``, shape (links,), and ``messages`` are of one step. ``link_series``: what the
    links carried over time, all steps together, where messages were simulated. ``wall_s``: how long
    the simulation took. ``library``: whose closed forms price its collectives, if any's.
    """

    fidelity: Fidelity
    program: Program
    timeline: Timeline
    shown_ranks: Ints
    step_s: Floats
    ranks: NDArray[Any]
    ideal_step_s: float
    bytes_sent: Floats
    bytes_received: Floats
    messages: int
    link_bytes: Floats
    link_series: LinkSeries | None
    wall_s: float
    pairs: Floats | None = None
    library: str = ""


@dataclass(frozen=True, eq=False)
class Times:
    """When every rank op of ``queues`` ended, in seconds, shape (steps, rank ops).

    ``ready``, of the same shape: as ``ready_times``. ``bounds``, shape (steps + 1, ranks of
    queues): when each rank's steps begin, and the last one ends. ``like``: for each rank of the
    program the rank of ``queues`` that has its times, shape (ranks,).
    """

    queues: Queues
    like: Ints
    ready: Floats
    ends: Floats
    bounds: Floats


def ranks_to_show(program: Program) -> Ints:
    """The ranks that a timeline shows, in order."""
    if program.ranks <= MOST_SHOWN:
        return np.arange(program.ranks, dtype=np.int32)
    firsts = np.unique(program.class_of, return_index=True)[1]
    spread = np.linspace(0, firsts.size - 1, min(firsts.size, MOST_SHOWN)).astype(int)
    return np.sort(firsts[spread]).astype(np.int32)


def phases_of(program: Program) -> NDArray[np.uint8]:
    """The phase of each op, all lists one after the other, shape (ops,)."""
    return np.array([_phase(op) for ops in program.lists for op in ops], np.uint8)


def timeline(
    program: Program, times: Times, ranks: Ints, messages: NDArray[np.void], bubble: float
) -> Timeline:
    """The timeline of some ranks, with these messages, dtype MESSAGE."""
    streams = {name: number for number, name in enumerate([STEP_STREAM, *streams_of(program)])}
    texts = dict.fromkeys([program.name, *(op.name for ops in program.lists for op in ops)])
    names = {name: number for number, name in enumerate(texts)}
    templates = [_template(ops, streams, names) for ops in program.lists]
    whole = np.zeros(1, INTERVAL)
    whole["phase"], whole["name"] = Phase.STEP, names[program.name]
    whole["stream"] = streams[STEP_STREAM]
    rows, known = [], dict[int, NDArray[np.void]]()
    for rank in ranks.tolist():
        like = int(times.like[rank])
        if like not in known:
            template = np.concatenate([whole, templates[program.class_of[rank]]])
            known[like] = _intervals(template, times, like)
        own = known[like].copy()
        own["rank"] = rank
        rows.append(own)
    return Timeline(
        source="simulated",
        ranks=program.ranks,
        names=tuple(names),
        streams=tuple(streams),
        intervals=np.concatenate(rows),
        messages=messages,
        bubble=bubble,
    )


def _intervals(template: NDArray[np.void], times: Times, like: int) -> NDArray[np.void]:
    """All steps of a rank of the queues, each behind the interval of the step itself."""
    own = slice(*times.queues.rank_ops_of[like : like + 2])
    found = np.tile(template, (len(times.ends), 1))
    found["step"] = np.arange(len(times.ends))[:, None]
    found["start"][:, 1:] = starts_of(times.queues, times.ends, like)
    found["end"][:, 1:], found["ready"][:, 1:] = times.ends[:, own], times.ready[:, own]
    found["start"][:, 0], found["end"][:, 0] = times.bounds[:-1, like], times.bounds[1:, like]
    return found.ravel()


def _template(
    ops: Sequence[Op], streams: dict[str, int], names: dict[str, int]
) -> NDArray[np.void]:
    """The intervals of a list of ops without their times, dtype INTERVAL, shape (ops,)."""
    rows = np.zeros(len(ops), INTERVAL)
    rows["stream"] = [streams[op.stream] for op in ops]
    rows["name"] = [names[op.name] for op in ops]
    rows["phase"] = [_phase(op) for op in ops]
    rows["bytes"] = [op.nbytes if isinstance(op, Collective | Send | Recv) else 0 for op in ops]
    return rows


def _phase(op: Op) -> Phase:
    if isinstance(op, Compute):
        return op.phase
    return Phase.WAIT if isinstance(op, Wait) and not op.seconds else Phase.COMMUNICATION
