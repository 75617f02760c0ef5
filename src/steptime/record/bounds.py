"""Where the steps of a recorded job begin and end, rank by rank."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Ints
from steptime.record.events import Kind
from steptime.record.operations import OPERATIONS
from steptime.record.read import ProcessLog

_Stream: TypeAlias = tuple[str, tuple[int, ...], tuple[int, ...]]
"""A group by its name and its ranks, and of messages both ends: what is counted there meets."""


def job_bounds(logs: Sequence[ProcessLog]) -> list[Ints]:
    """The bounds of the steps of each rank, as ``step_bounds`` has them.

    A rank that ends no steps while others do, as a worker whose server has the optimizer or an
    actor whose learner has, follows one of those: its step ends where it has made its part of all
    that the other has called in that step. The one that it shares most calls with is followed.
    """
    leaders = [log for log in logs if len(_ends(log)) > 1]
    if len(leaders) in (0, len(logs)):
        return [step_bounds(log) for log in logs]
    made = {leader.rank: _made(leader) for leader in leaders}
    return [
        step_bounds(log) if log.rank in made else _following(log, leaders, made) for log in logs
    ]


def step_bounds(log: ProcessLog) -> Ints:
    """Where the steps of a rank begin and end, in nanoseconds of its clock, shape (steps + 1,).

    A step ends where the script says so with ``steptime.step``, else where its first optimizer has
    stepped; what comes before the first such end is no step, since setting up is in it. A script
    with none, or one, of these is one step from its first event to its last; a rank without events
    is one step of no length.
    """
    ends = _ends(log)
    if len(ends) > 1:
        return ends
    return np.array([_first(log), log.last])


def optimizer_steps(log: ProcessLog) -> NDArray[np.void]:
    """The steps of the optimizer that stepped first, whose number is 0."""
    events = log.events
    return np.asarray(events[(events["kind"] == Kind.OPTIMIZER) & (events["peer"] == 0)])


def _ends(log: ProcessLog) -> Ints:
    ends = log.events["ended"][log.events["kind"] == Kind.STEP]
    return np.asarray(ends if len(ends) else optimizer_steps(log)["ended"], np.int64)


def _first(log: ProcessLog) -> int:
    return int(log.events["issued"][0]) if len(log.events) else log.last


def _following(
    log: ProcessLog,
    leaders: Sequence[ProcessLog],
    made: Mapping[int, Mapping[_Stream, NDArray[np.void]]],
) -> Ints:
    own = _made(log)

    def shared(leader: ProcessLog) -> int:
        return sum(len(own[stream]) for stream in own.keys() & made[leader.rank].keys())

    leader = max(leaders, key=shared)
    ends = _ends(leader)
    if not shared(leader):
        ahead = (leader.wall_ns - leader.clock_ns) - (log.wall_ns - log.clock_ns)
        return np.asarray(ends + ahead, np.int64)
    begin = _first(log)
    bounds: NDArray[np.int64] = np.full(len(ends), begin, np.int64)
    for stream in own.keys() & made[leader.rank].keys():
        done = np.append(begin, own[stream]["ended"] + 1)
        before = np.searchsorted(made[leader.rank][stream]["issued"], ends)
        bounds = np.maximum(bounds, done[np.minimum(before, len(done) - 1)])
    return np.asarray(bounds)


def _made(log: ProcessLog) -> dict[_Stream, NDArray[np.void]]:
    """The calls of each stream; as their end counts when the script went on from them."""
    calls = log.calls
    went_on = np.maximum(calls["returned"], calls["wait_end"])
    following = np.append(calls["issued"][1:], np.iinfo(np.int64).max)
    calls["ended"] = np.maximum(calls["returned"], np.minimum(went_on, following - 1))
    message = np.array([one.is_message for one in OPERATIONS])[calls["operation"]]
    sends = np.array([one.kind == "send" for one in OPERATIONS])[calls["operation"]]
    peer = np.where(message, calls["peer"], -1)
    each = np.stack([calls["group"].astype(np.int64), peer, sends], axis=1)
    found = {}
    for key in np.unique(each, axis=0):
        group = log.groups[int(key[0])]
        ends: tuple[int, ...] = ()
        if key[1] >= 0:
            there = group.ranks[key[1]]
            ends = (log.rank, there) if key[2] else (there, log.rank)
        found[group.torch_name, group.ranks, ends] = calls[(each == key).all(axis=1)]
    return found
