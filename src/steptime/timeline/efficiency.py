"""POP's efficiencies: how much of the time of all ranks is useful, and what takes the rest.

Definitions: the POP Centre of Excellence (co-design.pop-coe.eu/metrics), and for serialisation and
transfer Rosas, Giménez, Labarta, "Scalability prediction for fundamental performance factors"
(2014). Useful is the time in which a rank computes or updates; communication hidden behind either
costs nothing. No value is clipped: one above 1, as cache effects give it, is a finding.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from steptime.errors import UsageError
from steptime.timeline.phases import phases_of_steps
from steptime.timeline.timeline import Timeline

ScalingKind: TypeAlias = Literal["strong", "weak"]
"""strong: the same work a step on any number of ranks; weak: the same work on each rank."""


@dataclass(frozen=True, kw_only=True)
class Usage:
    """The useful time of ranks of ``threads`` threads in ``steps`` steps.

    ``useful_s``: the useful time of each rank in all these steps, in seconds. ``run_time_s``: the
    duration of the steps on the slowest rank. Raises UsageError where the steps take no time or no
    rank does anything useful: there is no efficiency then.
    """

    useful_s: tuple[float, ...]
    run_time_s: float
    steps: int = 1
    threads: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.run_time_s < np.inf:
            raise UsageError(
                f"the steps take {self.run_time_s:g} s, which has no efficiency: give a run whose "
                "steps take time"
            )
        if not self.longest_s > 0:
            raise UsageError(
                "no rank computes or updates in the steps, which have no efficiency then: give a "
                "run that computes"
            )

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return len(self.useful_s)

    @property
    def workers(self) -> int:
        """How many threads there are, of all ranks together."""
        return self.ranks * self.threads

    @property
    def mean_s(self) -> float:
        """Useful time of a rank on average, in seconds."""
        return float(np.mean(self.useful_s))

    @property
    def longest_s(self) -> float:
        """Useful time of the busiest rank, in seconds."""
        return max(self.useful_s, default=0.0)


@dataclass(frozen=True, kw_only=True)
class Efficiency:
    """The factors of the parallel efficiency.

    parallel = load balance × communication, and communication = serialisation × transfer. The last
    two are None where the same steps' duration on the ideal network is unknown.
    """

    parallel_efficiency: float
    load_balance: float
    communication_efficiency: float
    serialisation_efficiency: float | None = None
    transfer_efficiency: float | None = None


@dataclass(frozen=True, kw_only=True)
class Scaling:
    """A run compared with a reference run on other ranks or threads.

    ``speedup``: how many times the work of the reference is done in the same time. ``efficiency``:
    the speedup divided by the ratio of threads; tokens/s scale with it too. ``global_efficiency``:
    parallel efficiency × ``computation_scalability``.
    """

    speedup: float
    efficiency: float
    computation_scalability: float
    global_efficiency: float


def usage_of_steps(timeline: Timeline, name: str, *, first: int = 0, threads: int = 1) -> Usage:
    """The useful time of a timeline's ranks in the steps called ``name``, from step ``first`` on.

    Useful is the union of a rank's compute and update intervals inside its steps, without waits.
    Only steps that all ranks have count.

    Raises UsageError where there are none, or they have no efficiency.
    """
    phases = common_steps(timeline, name, first)
    ranks, place = np.unique(phases["rank"], return_inverse=True)
    useful = np.bincount(place, weights=phases["compute"] + phases["update"])
    taken = np.bincount(place, weights=phases["duration"])
    return Usage(
        useful_s=tuple(useful.tolist()),
        run_time_s=float(taken.max()),
        steps=len(phases) // len(ranks),
        threads=threads,
    )


def common_steps(timeline: Timeline, name: str, first: int = 0) -> NDArray[np.void]:
    """The steps called ``name`` that all ranks took, from step ``first`` on: dtype PHASES.

    In order of rank and start. Raises UsageError where there are none.
    """
    phases = phases_of_steps(timeline, name)
    phases = phases[phases["step"] >= first]
    steps, ranks_with = np.unique(phases["step"], return_counts=True)
    common = steps[ranks_with == len(np.unique(phases["rank"]))]
    if not len(common):
        raise UsageError(
            f"the timeline holds no step of {name} from step {first} on that all ranks took: give "
            "a whole run"
        )
    return phases[np.isin(phases["step"], common)]


def efficiency(usage: Usage, ideal: Usage | None = None) -> Efficiency:
    """The efficiencies of a run; ``ideal``: the same steps on the ideal network, if known.

    The ideal network has no latency and infinite bandwidth, and keeps the order of messages. The
    waiting that is left on it is serialisation, and the rest is transfer.
    """
    communication = usage.longest_s / usage.run_time_s
    serialisation = ideal.longest_s / ideal.run_time_s if ideal else None
    return Efficiency(
        parallel_efficiency=usage.mean_s / usage.run_time_s,
        load_balance=usage.mean_s / usage.longest_s,
        communication_efficiency=communication,
        serialisation_efficiency=serialisation,
        transfer_efficiency=communication / serialisation if serialisation else None,
    )


def scaling(usage: Usage, reference: Usage, kind: ScalingKind = "strong") -> Scaling:
    """How a run scales against a ``reference``, step by step.

    The useful time of a rank counts once for each of its threads: losses among its threads, which
    no timeline shows, lower the computation scalability.
    """
    work = usage.ranks / reference.ranks if kind == "weak" else 1.0
    computed = _worker_seconds(reference) / _worker_seconds(usage) * work
    speedup = work * _step_s(reference) / _step_s(usage)
    return Scaling(
        speedup=speedup,
        efficiency=speedup * reference.workers / usage.workers,
        computation_scalability=computed,
        global_efficiency=computed * usage.mean_s / usage.run_time_s,
    )


def _step_s(usage: Usage) -> float:
    return usage.run_time_s / usage.steps


def _worker_seconds(usage: Usage) -> float:
    """Useful time of all threads of all ranks in a step, in seconds."""
    return usage.threads * sum(usage.useful_s) / usage.steps
