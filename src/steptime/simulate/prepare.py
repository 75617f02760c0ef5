"""Preparing a simulation: check that program, cluster and algorithms fit, and plan the step."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import get_args

import numpy as np

from steptime.arrays import Floats, Ints
from steptime.cluster import Cluster
from steptime.errors import UsageError
from steptime.host_memory import require_memory
from steptime.program import Matching, Program, check, match_calls
from steptime.simulate.call_costs import with_costs
from steptime.simulate.cores import are_shared, crowding
from steptime.simulate.plan import Plan, check_algorithms, make_plan
from steptime.simulate.priced import Ideal, ideal_step
from steptime.simulate.queues import Queues, queues
from steptime.simulate.simulation import Fidelity
from steptime.simulate.work import with_work

NOTHING_NAMED: Mapping[str, str] = MappingProxyType({})

_TIMES_BYTES = 16  # of each rank op and step, at fidelity message
_OTHER_BYTES = 100  # of each rank op there: its part in an instance, and what it waits for
_RANK_BYTES = 1000  # of each rank at fidelity collective: its groups, and its paths to them


@dataclass(frozen=True, eq=False, kw_only=True)
class Prepared:
    """A program that was checked for simulation on a cluster, and the plan of its step.

    ``asked``: the program as it was given, and ``program`` with what the cluster adds to it.
    ``algorithms``: those named by collective. ``devices``: that of each rank, shape (ranks,).
    ``wall_s``: how long preparing took.
    """

    asked: Program
    program: Program
    cluster: Cluster
    fidelity: Fidelity
    algorithms: Mapping[str, str]
    steps: int
    devices: Ints
    queues: Queues
    matching: Matching
    plan: Plan
    ideal_if_known: Ideal | None
    wall_s: float

    @property
    def on_cores(self) -> bool:
        """Whether its ranks share cores from one instant to the next."""
        return self.fidelity == "message" and are_shared(self.asked, self.cluster)

    @cached_property
    def ideal(self) -> Ideal:
        """The step where calls take no time, and no rank a core from another."""
        if self.ideal_if_known:
            return self.ideal_if_known
        if self.on_cores:
            return _ideal_on_cores(self.asked, self.cluster, self.queues.speed)
        return ideal_step(self.program, self.queues, self.matching)


def prepare(
    program: Program,
    cluster: Cluster,
    *,
    fidelity: Fidelity = "message",
    algorithms: Mapping[str, str] = NOTHING_NAMED,
    steps: int = 2,
) -> Prepared:
    """Check and plan the simulation of some steps of ``program``; ``simulate`` begins with it.

    Raises UsageError where the program does not fit the cluster or contradicts itself, an algorithm
    cannot serve or makes too many transfers to be simulated, or there is too little memory.
    """
    began = time.perf_counter()
    if fidelity not in get_args(Fidelity):
        raise UsageError(f"there is no fidelity {fidelity!r}: choose message or collective")
    if steps < 1:
        raise UsageError(f"{steps} steps cannot be simulated: ask for at least 1")
    check(program)
    priced, shared = fidelity == "collective", are_shared(program, cluster)
    on_cores = shared and not priced
    asked, program = program, (with_work if on_cores else with_costs)(program, cluster)
    devices = cluster.placed(program.ranks)
    _require_memory(program, steps, fidelity)
    matching = match_calls(program)
    check_algorithms(matching, algorithms)
    speed = _speed(cluster, devices, crowded=shared and priced)
    queued = queues(program, cluster.device, speed)
    if on_cores:
        ideal = _ideal_on_cores(asked, cluster, speed)
    else:
        ideal = ideal_step(program, queued, matching)
    plan = make_plan(cluster, matching, devices, algorithms, priced=priced, at_rest=on_cores)
    return Prepared(
        asked=asked,
        program=program,
        cluster=cluster,
        fidelity=fidelity,
        algorithms=algorithms,
        steps=steps,
        devices=devices,
        queues=queued,
        matching=matching,
        plan=plan,
        ideal_if_known=ideal,
        wall_s=time.perf_counter() - began,
    )


def prepare_again(prepared: Prepared, cluster: Cluster) -> Prepared:
    """The same program on a cluster that differs from that of ``prepared`` in figures alone.

    Where these are the speeds of links and devices, all but its plan is kept, which takes most of
    the time.
    """
    began = time.perf_counter()
    before = prepared.cluster
    if (
        cluster.device is not before.device
        or cluster.calls is not before.calls
        or cluster.cores != before.cores
    ):
        return prepare(
            prepared.asked,
            cluster,
            fidelity=prepared.fidelity,
            algorithms=prepared.algorithms,
            steps=prepared.steps,
        )
    devices = cluster.placed(prepared.program.ranks)
    priced = prepared.fidelity == "collective"
    crowded = priced and are_shared(prepared.asked, cluster)
    return replace(
        prepared,
        cluster=cluster,
        devices=devices,
        queues=prepared.queues._replace(speed=_speed(cluster, devices, crowded=crowded)),
        plan=make_plan(
            cluster,
            prepared.matching,
            devices,
            prepared.algorithms,
            priced=priced,
            at_rest=prepared.on_cores,
        ),
        ideal_if_known=None,
        wall_s=time.perf_counter() - began,
    )


def _speed(cluster: Cluster, devices: Ints, *, crowded: bool) -> Floats:
    """The speed of each rank; ``crowded``: of its part of a core, as if all always computed."""
    speed = cluster.speed[devices]
    return speed / crowding(cluster, devices) if crowded else speed


def _ideal_on_cores(asked: Program, cluster: Cluster, speed: Floats) -> Ideal:
    """The step without what calls need of the cores."""
    return ideal_step(asked, queues(asked, cluster.device, speed), match_calls(asked))


def _require_memory(program: Program, steps: int, fidelity: Fidelity) -> None:
    """Raise UsageError where what is kept of all ranks does not fit.

    At fidelity ``collective`` that is what each sends whom; ``priced`` knows of how many kinds they
    are, and with it how many ops are timed.
    """
    sizes = np.array([len(ops) for ops in program.lists], np.int64)
    rank_ops = float(sizes[program.class_of].sum())
    by_message = rank_ops * (steps * _TIMES_BYTES + _OTHER_BYTES)
    require_memory(
        by_message if fidelity == "message" else float(program.ranks * _RANK_BYTES),
        f"{program.name} on {program.ranks} ranks, {rank_ops:,.0f} ops in all,",
        "ask for fewer ranks",
    )
