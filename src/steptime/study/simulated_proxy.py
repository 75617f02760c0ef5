"""A proxy on a cluster that need not be here: simulated, and beside what was measured."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from steptime.cluster import Cluster
from steptime.errors import UsageError
from steptime.program import Compute, Op, Program
from steptime.replay.demand import labels_of
from steptime.replay.waits import RankTimes, spent_by
from steptime.replay.workload import Proxy
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

    ``phases``: by what the main stream did, as ``figures`` has it of a live run, the mean over the
    ranks and the most, in seconds; ``under_way``: the seconds of the calls by axes. Of very many
    ranks both are made of ``divided`` of them.
    """

    cluster: Cluster
    simulation: Simulation
    phases: Mapping[str, tuple[float, float]]
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
        return replace(op, seconds=0.0 if proxy.compute == "nothing" else proxy.device.seconds(op))

    program = proxy.program
    return replace(program, lists=tuple(tuple(map(timed, ops)) for ops in program.lists))


def asked_of_proxy(proxy: Proxy) -> Asked:
    """The step of a proxy as a simulation is asked for it; raises UsageError without a cluster."""
    if proxy.cluster is None:
        raise UsageError(f"nothing says where to simulate {proxy.model}: give --cluster")
    case = Case(name=proxy.program.name, summary="", program=timed_program(proxy), algorithms={})
    return Asked(cluster=proxy.cluster, cases=[case], facts={})


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
) -> tuple[dict[str, tuple[float, float]], dict[str, float]]:
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
    phases = {name: (float(of @ weights), float(of.max())) for name, of in every.items()}
    return phases, dict(zip(labels, (weights @ under_way).tolist(), strict=True))


def figures_of(one: SimulatedProxy) -> dict[str, Any]:
    """The figures of a simulated run, under the names that those of a live one have."""
    simulation, step_s = one.simulation, one.step_s
    return {
        "source": "simulated",
        "cluster": one.cluster.name,
        "cluster_title": one.cluster.title,
        "cluster_source": one.cluster.source,
        "fidelity": simulation.fidelity,
        "step_time_s": {"median": step_s, "p10": step_s, "p90": step_s, "cv": 0.0},
        "steps_s": simulation.step_s.tolist(),
        "rank_step_s": simulation.ranks["step_s"].tolist(),
        "phases": {
            what: {"mean_s": mean, "max_s": most} for what, (mean, most) in one.phases.items()
        },
        "under_way": dict(one.under_way),
        "divided_ranks": one.divided,
        "messages": simulation.messages,
        "wall_s": simulation.wall_s,
    }


def bytes_of(one: SimulatedProxy) -> list[dict[str, int]]:
    """The bytes that each rank sends and receives in a step, by the messages that were chosen."""
    both = zip(
        one.simulation.bytes_sent.tolist(), one.simulation.bytes_received.tolist(), strict=True
    )
    return [{"sent": round(sent), "received": round(received)} for sent, received in both]


def error(live: Mapping[str, Any], simulated: Mapping[str, Any]) -> dict[str, Any]:
    """How far simulated figures are from measured ones, as a part of these; above 0: too long.

    None where the measured one is 0.
    """

    def off(there: float, here: float) -> float | None:
        return there / here - 1 if here else None

    return {
        "source": "computed",
        "step_time": off(simulated["step_time_s"]["median"], live["step_time_s"]["median"]),
        "phases": {
            what: off(simulated["phases"][what]["mean_s"], of["mean_s"])
            for what, of in live["phases"].items()
            if what in simulated["phases"]
        },
    }
