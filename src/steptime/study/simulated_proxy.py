"""A proxy on a cluster that need not be here: simulated, and beside what was measured."""

from dataclasses import dataclass, replace

import numpy as np

from steptime.cluster.beside import computing_beside
from steptime.errors import UsageError
from steptime.replay.demand import labels_of
from steptime.replay.times import with_seconds
from steptime.replay.waits import RankTimes, spent_by
from steptime.replay.workload import Proxy, plan_of
from steptime.runs.environment import here
from steptime.runs.figures import EXPOSED, Spread
from steptime.runs.proxy_record import (
    PhaseTime,
    ProxyRecord,
    ProxyStep,
)
from steptime.runs.proxy_step import with_exposed
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
    """What a record holds of a proxy's step on its cluster, and the simulation itself."""

    step: ProxyStep
    simulation: Simulation


def asked_of_proxy(proxy: Proxy) -> Asked:
    """The step of a proxy as a simulation is asked for it; raises UsageError without a cluster."""
    if proxy.cluster is None:
        raise UsageError(f"nothing says where to simulate {proxy.model}: give --cluster")
    program = with_seconds(proxy.program, proxy.seconds_of)
    case = Case(name=program.name, summary="", program=program, algorithms={})
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
    simulation = done.simulations[case.name]
    program = simulation.program
    of = program.class_of[simulation.shown_ranks]
    firsts = np.unique(of, return_index=True)[1]
    others = np.setdiff1d(np.arange(of.size), firsts)
    chosen = np.sort(np.concatenate([firsts, others])[:_MOST_DIVIDED])
    # Each stands for as many ranks of its class as there are.
    weights = (np.bincount(program.class_of) / np.bincount(of[chosen], minlength=of.max() + 1))[
        of[chosen]
    ]
    phases, under_way = _divided(simulation, chosen, weights / weights.sum())
    last_s = float(simulation.step_s[-1])  # by then in the steady state
    step = ProxyStep(
        source="simulated",
        cluster=asked.cluster.name,
        cluster_title=asked.cluster.title,
        cluster_source=asked.cluster.source,
        fidelity=simulation.fidelity,
        step_time_s=Spread(median=last_s, p10=last_s, p90=last_s, cv=0.0),
        steps_s=simulation.step_s.tolist(),
        rank_step_s=simulation.ranks["step_s"].tolist(),
        phases=phases,
        under_way=under_way,
        divided_ranks=chosen.size,
        messages=simulation.messages,
        wall_s=simulation.wall_s,
    )
    used, expected = proxy.figures_of(last_s)
    step = replace(step, utilisation=used, expected=expected)
    means = {part: float(simulation.ranks[part].mean()) for part in EXPOSED}
    return SimulatedProxy(step=with_exposed(step, means), simulation=simulation)


def simulate_live_proxy(proxy: Proxy, how: HowOptions) -> SimulatedProxy:
    """The same as live ranks ran it: where they slept, no call waited for a core that computes."""
    if proxy.cluster is not None and proxy.compute == "sleep":
        proxy = replace(proxy, cluster=computing_beside(proxy.cluster))
    return simulate_proxy(proxy, how)


def _divided(
    simulation: Simulation, chosen: np.ndarray, weights: np.ndarray
) -> tuple[dict[str, PhaseTime], dict[str, float]]:
    """Phases and calls under way of the last step, of some of the ranks that are shown."""
    program, rows = simulation.program, simulation.timeline.intervals
    labels = labels_of(program)
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
    moved = np.stack([one.simulation.bytes_sent, one.simulation.bytes_received], axis=1)
    plan = plan_of(proxy).with_bytes("simulated_bytes", moved.tolist())
    return ProxyRecord(plan=plan, step=one.step, environment=here())
