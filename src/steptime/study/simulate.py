"""Steps simulated on a cluster: one case after the other, and what is said of each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import ceil
from typing import Any

import numpy as np

from steptime.arrays import Floats
from steptime.cluster import Cluster
from steptime.errors import UsageError
from steptime.program.pair_bytes import calls_record, pairs_record
from steptime.runs.codec import decoded
from steptime.runs.environment import here
from steptime.runs.figures import (
    PARTS,
    Bound,
    CallKind,
    LinkUse,
    PairBytes,
    RankFigures,
    Spread,
    StepFigures,
    sum_by,
    with_speeds,
)
from steptime.runs.record import (
    Elsewhere,
    LinkLoad,
    Place,
    Published,
    PublishedRow,
    RunRecord,
    Timing,
    Work,
)
from steptime.simulate.prepare import Prepared, prepare, prepare_again
from steptime.simulate.sensitivity import Probe, Sensitivity, probes, sensitivities
from steptime.simulate.simulation import Simulation
from steptime.simulate.step import simulate_prepared, step_seconds
from steptime.study.cases import Asked
from steptime.study.comparison import Comparison
from steptime.study.compute_speed import compute_speed
from steptime.study.options import HowOptions
from steptime.study.simulated_axes import simulated_axes
from steptime.timeline import Timeline, merge
from steptime.workloads.presets import Case, seconds_of

MOST_LINKS = 1000
"""Links of which a run tells what they carry."""

BUSIEST = 40
"""Links whose use over time a run keeps of each strategy."""


@dataclass(frozen=True, eq=False)
class Study:
    """The simulations of some steps on one cluster, by the names of their cases."""

    asked: Asked
    cluster: Cluster
    how: HowOptions
    simulations: Mapping[str, Simulation]

    @cached_property
    def comparison(self) -> Comparison:
        """The figures of all cases, and their timelines one after the other."""
        figures = {case.name: _figures(self, case) for case in self.asked.cases}
        timelines = [simulation.timeline for simulation in self.simulations.values()]
        return Comparison(figures, merge(list(_in_turn(timelines))))


def prepare_all(asked: Asked, cluster: Cluster, how: HowOptions) -> dict[str, Prepared]:
    """What every case comes to on the cluster, by name, before anything is simulated.

    Raises UsageError where a case cannot be simulated, or none calls a collective that an algorithm
    is asked for.
    """
    prepared = {case.name: _prepared(case, cluster, how) for case in asked.cases}
    called = {call.kind for one in prepared.values() for call in one.matching.calls}
    unread = [kind for kind in how.algorithms() if kind not in called]
    if unread:
        steps = "no step calls it" if len(prepared) > 1 else "the step does not call it"
        raise UsageError(f"--algorithm names one of {unread[0]}, and {steps}: leave it out")
    return prepared


def study(
    asked: Asked,
    cluster: Cluster,
    how: HowOptions,
    prepared: Mapping[str, Prepared],
    on_case: Callable[[Case], None],
) -> Study:
    """Simulate every case as it was prepared for the cluster; ``on_case`` hears of each done."""
    simulations = {}
    for case in asked.cases:
        simulations[case.name] = simulate_prepared(prepared[case.name])
        on_case(case)
    return Study(asked, cluster, how, simulations)


def probes_of(study: Study, name: str) -> list[Probe]:
    """What may bound the step of a case."""
    simulation = study.simulations[name]
    busy = simulation.ranks["compute_s"] + simulation.ranks["update_s"]
    devices = study.cluster.placed(len(simulation.ranks))
    return probes(study.cluster, simulation.link_bytes, busy, devices)


def bounds_of(study: Study, name: str, asked: Sequence[Probe]) -> Iterator[Sensitivity]:
    """How far each probe bounds the step of a case, as the answers come."""
    case = next(case for case in study.asked.cases if case.name == name)
    prepared = _prepared(case, study.cluster, study.how)
    base = float(study.simulations[name].step_s[-1])

    def step_s(cluster: Cluster) -> float:
        return float(step_seconds(prepare_again(prepared, cluster))[-1])

    return sensitivities(base, asked, step_s)


def _prepared(case: Case, cluster: Cluster, how: HowOptions) -> Prepared:
    return prepare(
        case.program,
        cluster,
        fidelity=how.fidelity_of(case.program.ranks),
        algorithms=case.algorithms,
        steps=how.steps,
    )


def _in_turn(timelines: Sequence[Timeline]) -> Iterator[Timeline]:
    """The timelines such that each begins when the one before it has ended."""
    begin = 0.0
    for timeline in timelines:
        later = _later(timeline, begin) if begin else timeline
        yield later
        begin = float(later.intervals["end"].max(initial=begin))


def _later(timeline: Timeline, seconds: float) -> Timeline:
    intervals, messages = timeline.intervals.copy(), timeline.messages.copy()
    for rows, fields in (
        (intervals, ("start", "end", "ready")),
        (messages, ("sent", "received")),
    ):
        for field in fields:
            rows[field] += seconds
    return replace(timeline, intervals=intervals, messages=messages)


def _figures(study: Study, case: Case) -> StepFigures:
    """What is printed of a case: its last step, by then in the steady state."""
    simulation, cluster = study.simulations[case.name], study.cluster
    step = float(simulation.step_s[-1])
    ranks = simulation.ranks
    whole = float(ranks["step_s"].sum())
    tokens = study.asked.tokens
    used, expected = study.asked.figures_of(case.name, step)
    shares: Any = {
        part: step * float(ranks[part].sum()) / whole if whole else 0.0 for part in PARTS
    }
    hosts = [f"host{host}" for host in cluster.host_of[cluster.placed(len(ranks))].tolist()]
    sent, received = _whole(simulation.bytes_sent), _whole(simulation.bytes_received)
    return StepFigures(
        source="simulated",
        summary=case.summary,
        step_time_s=Spread(step, step, step),
        **shares,
        bytes_sent_per_rank=sent,
        bytes_received_per_rank=received,
        wire_bytes_sent_per_rank=None,
        wire_bytes_received_per_rank=None,
        bytes_sent_per_host=sum_by(hosts, sent),
        bytes_received_per_host=sum_by(hosts, received),
        tokens_per_s=tokens / step if tokens and step else None,
        loss=[],
        parameter_hash=[],
        model_memory=study.asked.facts_of.get(case.name, {}).get("model_memory"),
        compute_speed=compute_speed(case.program, cluster, study.asked.software_of(case.name)),
        utilisation=used,
        expected=expected,
        ranks=[
            RankFigures(
                rank=rank, host=host, step_time_s=seconds, **dict(zip(PARTS, parts, strict=True))
            )
            for host, (rank, seconds, *parts) in zip(hosts, ranks.tolist(), strict=True)
        ],
    )


def _whole(counts: Floats) -> list[int]:
    """Bytes as whole numbers."""
    return [round(count) for count in counts.tolist()]


def record(study: Study, run: str) -> RunRecord:
    """The record of a study, in the folder ``run``."""
    comparison, simulations = study.comparison, study.simulations.values()
    best = study.simulations[comparison.fastest]
    cases = {case.name: _case(study, case) for case in study.asked.cases}
    return RunRecord(
        verb="simulate",
        run=run,
        work=replace(decoded(study.asked.facts, Work), spec=cases[comparison.fastest].spec),
        place=Place(
            world_size=max(len(one.ranks) for one in simulations),
            cluster=study.cluster.name,
            cluster_title=study.cluster.title,
            cluster_source=study.cluster.source,
        ),
        timing=Timing(
            fidelity=best.fidelity,
            library=best.library or None,
            simulated_steps=study.how.steps,
            messages=sum(one.messages for one in simulations),
            wall_s=sum(one.wall_s for one in simulations),
        ),
        strategies=with_speeds(cases),
        winner=comparison.fastest,
        links=_links(study.cluster, best),
        published=_published(study),
        environment=here(),
    )


def _case(study: Study, case: Case) -> StepFigures:
    """The figures of a case, and all else that a record holds of it."""
    simulation, facts = study.simulations[case.name], study.asked.facts_of.get(case.name, {})
    pairs = None if simulation.pairs is None else pairs_record(simulation.pairs)
    calls = [CallKind(**call) for call in calls_record(case.program)]
    return replace(
        study.comparison.strategies[case.name],
        ideal_step_s=simulation.ideal_step_s,
        fidelity=simulation.fidelity,
        messages=simulation.messages,
        wall_s=simulation.wall_s,
        link_use=_link_use(study.cluster, simulation, case.name),
        calls=calls,
        axes=simulated_axes(case.program, simulation, calls),
        pairs=None if pairs is None else PairBytes(**pairs),
        spec=facts.get("spec"),
        placement=facts.get("placement", ()),
    )


def _published(study: Study) -> Published | None:
    """The published figures of a preset beside the simulated ones."""
    if not study.asked.published:
        return None
    rows = [
        PublishedRow(
            label=row.label,
            strategy=row.case,
            published_s=row.seconds,
            simulated_s=seconds_of(row.what, study.simulations[row.case].timeline),
            how=row.how,
        )
        for row in study.asked.published
    ]
    return Published(source=study.asked.facts["preset_source"], rows=rows)


def _seconds_used(cluster: Cluster, simulation: Simulation) -> Floats:
    """What each link needs for the bytes of a step at its full bandwidth, shape (links,)."""
    return np.asarray(simulation.link_bytes / cluster.links.bandwidth)


def _links(cluster: Cluster, simulation: Simulation) -> list[LinkLoad]:
    """The links that carry something, the busiest, and how much of their bandwidth a step uses."""
    used = _seconds_used(cluster, simulation) / float(simulation.step_s[-1] or 1.0)
    busiest = np.sort(np.argsort(-used, kind="stable")[:MOST_LINKS])
    return [
        LinkLoad(
            name=cluster.links.names[link],
            bytes=round(float(simulation.link_bytes[link])),
            utilisation=float(used[link]),
        )
        for link in busiest.tolist()
        if simulation.link_bytes[link]
    ]


def _link_use(cluster: Cluster, simulation: Simulation, name: str) -> LinkUse:
    """The use of the busiest links over the last step, in one bin where no messages were simulated.

    ``begin_s``: when the first bin begins, from the begin of the step.
    """
    need = _seconds_used(cluster, simulation)
    count = int(np.count_nonzero(need))
    busiest = np.argsort(-need, kind="stable")[: min(BUSIEST, count)]
    steps = simulation.timeline.steps_named(name)
    last = steps[steps["step"] == steps["step"].max()]
    begin, end = float(last["start"].min()), float(last["end"].max())
    width, offset, utilisation = end - begin, 0.0, need[busiest][:, None] / (end - begin or 1.0)
    series = simulation.link_series
    if series is not None and series.width:
        first, past = int(begin / series.width), ceil(end / series.width)
        columns = np.searchsorted(series.links, busiest)
        width, offset = series.width, first * series.width - begin
        utilisation = series.utilisation[first:past, columns].T
    return LinkUse(
        bin_s=width,
        begin_s=offset,
        links=[cluster.links.names[link] for link in busiest.tolist()],
        utilisation=np.round(utilisation, 4).tolist(),
        left_out=count - len(busiest),
    )


def once_more(study: Study, changes: str | None = None) -> Elsewhere:
    """What a record holds of the same cases on another cluster, or with changes of their own."""
    comparison, cluster = study.comparison, study.cluster
    best = study.simulations[comparison.fastest]
    return Elsewhere(
        changes=changes,
        cluster=cluster.name,
        cluster_title=cluster.title,
        fidelity=best.fidelity,
        winner=comparison.fastest,
        strategies=with_speeds(comparison.strategies),
    )


def bounded(run: RunRecord, answers: Mapping[str, Sequence[Sensitivity]]) -> RunRecord:
    """The record with what bounds the step of each case, by its name."""
    found = {
        name: replace(figures, sensitivity=[Bound(**asdict(answer)) for answer in answers[name]])
        for name, figures in run.strategies.items()
    }
    return replace(run, strategies=found)
