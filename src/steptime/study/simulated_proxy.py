"""A proxy on a cluster that need not be here: simulated, and beside what was measured."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from steptime.cluster import Cluster
from steptime.errors import UsageError
from steptime.program import Compute, Op, Program
from steptime.replay.demand import labels_of
from steptime.replay.waits import RankTimes, spent_by
from steptime.replay.workload import Proxy, plan_of
from steptime.runs.environment import here
from steptime.runs.figures import Spread
from steptime.runs.proxy_record import (
    Moved,
    PhaseTime,
    ProxyPlan,
    ProxyRecord,
    ProxyStep,
    SimulationError,
)
from steptime.simulate.simulation import Simulation
from steptime.study.cases import Asked
from steptime.study.options import HowOptions
from steptime.study.simulate import prepare_all, study
from steptime.timeline import Phase
from steptime.workloads.presets import Case

_MOST_DIVIDED = 32
"""So many ranks, one of each class first, are asked what they waited for."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SimulatedProxy:
    """A step of a proxy on a cluster.

    ``phases`` and ``under_way`` as a ProxyStep has them; of very many ranks both are made of
    ``divided`` of them.
    """

    cluster: Cluster
    simulation: Simulation
    phases: Mapping[str, PhaseTime]
    under_way: Mapping[str, float]
    divided: int

    @property
    def step_s(self) -> float:
        """The last step, by then in the steady state, on its slowest rank."""
        return float(self.simulation.step_s[-1])


def timed_program(proxy: Proxy) -> Program:
    """The proxy's program with the seconds that computing takes, in which live ranks sleep."""

    def timed(op: Op) -> Op:
        if not isinstance(op, Compute):
            return op
        return replace(op, seconds=proxy.seconds_of(op))

    program = proxy.program
    return replace(program, lists=tuple(tuple(map(timed, ops)) for ops in program.lists))


def asked_of_proxy(proxy: Proxy) -> Asked:
    """The step of a proxy as a simulation is asked for it; raises UsageError without a cluster."""
    if proxy.cluster is None:
        raise UsageError(f"nothing says where to simulate {proxy.model}: give --cluster")
    case = Case(name=proxy.program.name, summary="", program=timed_program(proxy), algorithms={})
    return Asked(cluster=proxy.cluster, cases=[case], facts={})


def check_simulated(proxy: Proxy, how: HowOptions) -> None:
    """Raise UsageError where its step cannot be simulated on its cluster."""
    asked = asked_of_proxy(proxy)
    prepare_all(asked, asked.cluster, how)


def simulate_proxy(proxy: Proxy, how: HowOptions) -> SimulatedProxy:
    """Simulate it on its cluster, as ``simulate`` would; raises UsageError as ``prepare_all``."""
    asked = asked_of_proxy(proxy)
    (case,) = asked.cases
    done = study(asked, asked.cluster, how, prepare_all(asked, asked.cluster, how), lambda _: None)
    simulation, program = done.simulations[case.name], case.program
    of = program.class_of[simulation.shown_ranks]
    firsts = np.unique(of, return_index=True)[1]
    others = np.setdiff1d(np.arange(of.size), firsts)
    chosen = np.sort(np.concatenate([firsts, others])[:_MOST_DIVIDED])
    # Each stands for as many ranks of its class as there are.
    weights = (np.bincount(program.class_of) / np.bincount(of[chosen], minlength=of.max() + 1))[
        of[chosen]
    ]
    phases, under_way = _divided(program, simulation, chosen, weights / weights.sum())
    return SimulatedProxy(
        cluster=asked.cluster,
        simulation=simulation,
        phases=phases,
        under_way=under_way,
        divided=chosen.size,
    )


def _divided(
    program: Program, simulation: Simulation, chosen: np.ndarray, weights: np.ndarray
) -> tuple[dict[str, PhaseTime], dict[str, float]]:
    """Phases and calls under way of the last step, of some of the ranks that are shown."""
    rows, labels = simulation.timeline.intervals, labels_of(program)
    what = ("compute", "update", *labels)
    spent, under_way = np.zeros((chosen.size, len(what))), np.zeros((chosen.size, len(labels)))
    step_s = np.zeros(chosen.size)
    for place, rank in enumerate(simulation.shown_ranks[chosen].tolist()):
        own = rows[rows["rank"] == rank]
        steps = own[own["phase"] == Phase.STEP]
        ops = own[own["phase"] != Phase.STEP].reshape(steps.size, -1)
        begin, end = float(steps["start"][-1]), float(steps["end"][-1])
        listed = program.lists[program.class_of[rank]]
        times = RankTimes(listed, ops["start"], ops["end"])
        step_s[place] = end - begin
        mine = spent_by(times, begin, end)
        spent[place] = [mine.get(one, 0.0) for one in what]
        under_way[place] = [times.under_way(one) for one in labels]
    other = np.maximum(step_s - spent.sum(axis=1), 0.0)
    every = dict(zip((*what, "other"), [*spent.T, other], strict=True))
    phases = {
        name: PhaseTime(mean_s=float(of @ weights), max_s=float(of.max()))
        for name, of in every.items()
    }
    return phases, dict(zip(labels, (weights @ under_way).tolist(), strict=True))


def simulated_record(proxy: Proxy, one: SimulatedProxy) -> ProxyRecord:
    """The record of a proxy that was simulated alone."""
    return ProxyRecord(
        plan=_with_messages(plan_of(proxy), one), step=simulated_step(one), environment=here()
    )


def beside(record: ProxyRecord, one: SimulatedProxy) -> ProxyRecord:
    """The record of a live proxy with the same simulated, and how far that is from it."""
    assert record.step is not None  # noqa: S101  (it ran live)
    there = simulated_step(one)
    return replace(record, simulated=there, error=error_of(record.step, there))


def simulated_step(one: SimulatedProxy) -> ProxyStep:
    """Its steps for a record, as ``measured_step`` has live ones."""
    simulation, step_s = one.simulation, one.step_s
    return ProxyStep(
        source="simulated",
        cluster=one.cluster.name,
        cluster_title=one.cluster.title,
        cluster_source=one.cluster.source,
        fidelity=simulation.fidelity,
        step_time_s=Spread(median=step_s, p10=step_s, p90=step_s, cv=0.0),
        steps_s=simulation.step_s.tolist(),
        rank_step_s=simulation.ranks["step_s"].tolist(),
        phases=one.phases,
        under_way=one.under_way,
        divided_ranks=one.divided,
        messages=simulation.messages,
        wall_s=simulation.wall_s,
    )


def _with_messages(plan: ProxyPlan, one: SimulatedProxy) -> ProxyPlan:
    """The plan with the bytes that each rank moves by the algorithms that were chosen."""
    simulation = one.simulation
    moved = zip(simulation.bytes_sent.tolist(), simulation.bytes_received.tolist(), strict=True)
    rows = [
        replace(of, simulated_bytes=Moved(round(sent), round(received)))
        for of, (sent, received) in zip(plan.per_rank, moved, strict=True)
    ]
    return replace(plan, per_rank=rows)


def error_of(live: ProxyStep, simulated: ProxyStep) -> SimulationError:
    """How far the simulated step is from the measured one."""

    def off(there: float, here: float) -> float | None:
        return there / here - 1 if here else None

    return SimulationError(
        step_time=off(simulated.step_time_s.median, live.step_time_s.median),
        phases={
            what: off(simulated.phases[what].mean_s, of.mean_s)
            for what, of in live.phases.items()
            if what in simulated.phases
        },
    )
