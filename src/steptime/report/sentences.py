"""The sentences of a page: what bounds the step, what to doubt, and what was run."""

from collections.abc import Sequence

from steptime.report.about import place, rank_counts
from steptime.report.palette import PARTS
from steptime.report.sections.strategies import percent, share
from steptime.report.subject import Subject
from steptime.runs.figures import StepFigures
from steptime.runs.record import RunRecord
from steptime.units import format_seconds


def headline(run: RunRecord) -> str:
    """The sentence that says which strategy wins and what bounds its step."""
    name = run.fastest
    entry = run.strategies[name]
    time = format_seconds(entry.step_time_s.median)
    if len(run.strategies) == 1:
        where = f" {place(run)}, simulated" if entry.source == "simulated" else ""
        opening = f"A step of {name} takes {time}{where}"
    else:
        speed = entry.speed_against_server
        against = f", {speed:.2f}× server" if speed and name != "server" else ""
        simulated = "simulated " * (entry.source == "simulated")
        opening = f"{name} is the fastest {place(run)}: {time} a {simulated}step{against}"
    return f"{opening}; {_bound(entry)}"


def headline_of_several(subjects: Sequence[Subject]) -> str:
    """The same of several runs, which may be of different verbs and places."""
    runs = len({id(one.run) for one in subjects})
    best = min(subjects, key=_step_s)
    worst = max(subjects, key=_step_s)
    time, simulated = format_seconds(_step_s(best)), best.entry.source == "simulated"
    opening = f"Of {runs} runs {best.name} is the fastest: {time} a {'simulated ' * simulated}step"
    if _step_s(worst) > _step_s(best) > 0:
        opening += f", {_step_s(worst) / _step_s(best):.2f}× {worst.name}"
    return f"{opening}; {_bound(best.entry)}"


def _step_s(subject: Subject) -> float:
    return float(subject.entry.step_time_s.median)


def _bound(entry: StepFigures) -> str:
    largest = max(PARTS, key=lambda part: getattr(entry, part.field))
    of_step = {part.field: percent(share(entry, part.field)) for part in PARTS}
    most, exposed = of_step[largest.field], of_step["exposed_comm_s"]
    if largest.field == "exposed_comm_s":
        return f"communication bounds it: {exposed} of the step is exposed communication"
    name = "what is none of compute, communication and update" * (largest.field == "other_s")
    return (
        f"{name or largest.label} bounds it ({most}), "
        f"and {exposed} of the step is exposed communication"
    )


def doubt(run: RunRecord) -> str:
    """Which strategies cannot be told from the winner, their steps spreading as they do."""
    winner = run.fastest
    strategies = run.strategies
    slowest = strategies[winner].step_time_s.p90
    near = [
        name
        for name, entry in strategies.items()
        if name != winner and entry.source == "measured" and entry.step_time_s.median <= slowest
    ]
    if not near:
        return ""
    return (
        f"The median step of {_listed(near)} lies within the spread (p10–p90) of {winner}’s steps: "
        "take more steps before trusting the order."
    )


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def facts(run: RunRecord) -> list[tuple[str, str, str]]:
    """Label, value and small print of what was run, for the line below the headline."""
    config = run.work.model_config
    shape = (
        "{layers} layers, {heads} heads, width {embd}, context {context}, "
        "vocabulary {vocabulary:,}, {parameters:,} parameters"
    )
    threads = run.place.threads
    each = f"{threads} thread{'s' * (threads != 1)} each" if threads else ""
    facts = [
        ("model", run.work.model, shape.format(**config) if config else run.work.program or ""),
        ("ranks", rank_counts(run).rpartition(" ")[0], each),
        ("cluster", run.place.cluster, run.place.cluster_title or ""),
        ("fidelity", run.timing.fidelity, ""),
        ("backend", run.place.backend, ""),
        ("precision", run.work.precision, ""),
        ("batch", run.work.batch, ""),
        ("data", run.work.data, ""),
    ]
    return [(name, str(value), small) for name, value, small in facts if value]
