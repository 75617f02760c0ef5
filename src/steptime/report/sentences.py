"""The sentences of a page: what bounds the step, what to doubt, and what was run."""

from collections.abc import Mapping, Sequence

from steptime.report.about import place, rank_counts
from steptime.report.palette import parts_of
from steptime.report.sections.strategies import percent, share
from steptime.report.standing import circumstances, how_sure
from steptime.report.standing import opening as standing
from steptime.report.subject import Subject
from steptime.report.utilisation import expected_sentence, formula_sentence, rates_sentence
from steptime.report.utilisation import share as share_of
from steptime.runs.figures import StepFigures
from steptime.runs.memory import needed
from steptime.runs.record import RunRecord
from steptime.units import format_seconds

_TOLD = 0.05  # of the step: what is less is told in the table
_SUBJECTS = {
    "other_s": "what is none of compute, communication and update",
    "bubble_s": "the pipeline bubble",
    "dependency_s": "waiting for one another",
}


def headline(run: RunRecord) -> str:
    """The sentence that says which strategy wins and what bounds its step."""
    name = run.fastest
    entry = run.strategies[name]
    time = format_seconds(entry.step_time_s.median)
    if len(run.strategies) == 1:
        where = f" {place(run)}, simulated" if entry.source == "simulated" else ""
        opening = f"A step of {name} takes {time}{where}"
    else:
        opening = standing(run)
        speed = entry.speed_against_server
        if entry.source == "simulated":
            opening = opening.replace(" a step", " a simulated step")
            opening += f", {speed:.2f}× server" if speed and name != "server" else ""
    basis = f" ({entry.compute_speed})" if entry.compute_speed else ""
    return f"{unfit(entry)}{opening}{basis}{_used(entry)}; {_bound(entry)}"


def _used(entry: StepFigures) -> str:
    """Its MFU and, where that is known of a simulated step, how far it may be off."""
    used = entry.utilisation
    if used is None or used.mfu is None:
        return ""
    off = f", expected error {100 * entry.expected.error:.0f} %" if entry.expected else ""
    return f", MFU {share_of(used.mfu)} %{off}"


def unfit(entry: StepFigures) -> str:
    """What comes before all else of a step that does not fit; empty of one that does."""
    if entry.model_memory is None or entry.fits is not False:
        return ""
    return f"Does not fit: {needed(entry.model_memory)}. If it did: "


def headline_of_several(subjects: Sequence[Subject]) -> str:
    """The same of several runs, which may be of different verbs and places."""
    runs = len({id(one.run) for one in subjects})
    best = min(subjects, key=lambda one: one.entry.standing)
    worst = max(subjects, key=_step_s)
    time, simulated = format_seconds(_step_s(best)), best.entry.source == "simulated"
    measured = any(one.entry.source == "measured" for one in subjects)
    what = "has the shortest median" if measured else "is the fastest"
    opening = unfit(best.entry)
    opening += f"Of {runs} runs {best.name} {what}: {time} a {'simulated ' * simulated}step"
    if _step_s(worst) > _step_s(best) > 0:
        opening += f", {_step_s(worst) / _step_s(best):.2f}× {worst.name}"
    return f"{opening}; {_bound(best.entry)}"


def _step_s(subject: Subject) -> float:
    return float(subject.entry.step_time_s.median)


def _bound(entry: StepFigures, what: str = "it") -> str:
    """The part that takes most of the step, and the others worth a word, the longest first."""
    parts = [(share(entry, part.field), part) for part in parts_of([entry])]
    (most, first), *others = sorted(parts, key=lambda part: -part[0])
    name = _SUBJECTS.get(first.field, first.label)
    told = [f", {part.label} {percent(of)}" for of, part in others if of >= _TOLD]
    return f"{name} bounds {what}: {percent(most)} of the step{''.join(told)}"


def bound(run: RunRecord) -> str:
    """What bounds the step of the fastest strategy."""
    sentence = _bound(run.best, run.fastest)
    return f"{sentence[0].upper()}{sentence[1:]}."


def doubt(run: RunRecord) -> str:
    """How sure the headline is, and what to doubt of it."""
    entry = run.best
    if entry.source == "simulated":
        return expected_sentence(entry.expected)
    if len(run.strategies) > 1:
        return " ".join([*how_sure(run), *circumstances(run)])
    times = entry.step_time_s
    low, high = format_seconds(times.p10), format_seconds(times.p90)
    return f"Of ten steps eight took {low} to {high}." if times.p90 > times.p10 else ""


DOUBT_OF_SEVERAL = (
    "The runs did not take turns, and may have done different work: steptime diff says whether two "
    "that did the same differ by more than chance."
)


def closed_form(library: str | None) -> str:
    """That a library's collectives are priced so, empty where none's are."""
    return f"{library}'s collectives in closed form" if library else ""


def _filled(words: str, numbers: Mapping[str, int]) -> str:
    """Words with numbers put in, none where a number is not known."""
    try:
        return words.format(**numbers)
    except KeyError:
        return ""


def facts(run: RunRecord) -> list[tuple[str, str, str]]:
    """Label, value and small print of what was run, for the line below the headline."""
    config = run.work.model_config or {}
    shape = (
        "{layers} layers, {heads} heads, width {embd}, context {context}, "
        "vocabulary {vocabulary:,}, {parameters:,} parameters"
    )
    threads = run.place.threads
    each = f"{threads} thread{'s' * (threads != 1)} each" if threads else ""
    facts = [
        ("model", run.work.model, _filled(shape, config) or run.work.program or ""),
        ("ranks", rank_counts(run).rpartition(" ")[0], each),
        ("cluster", run.place.cluster, run.place.cluster_title or ""),
        ("fidelity", run.timing.fidelity, closed_form(run.timing.library)),
        *_rates(run.best),
        ("backend", run.place.backend, ""),
        ("precision", run.work.precision, ""),
        ("batch", run.work.batch, ""),
        ("data", run.work.data, ""),
    ]
    return [(name, str(value), small) for name, value, small in facts if value]


def _rates(entry: StepFigures) -> list[tuple[str, str, str]]:
    """What the step uses of its devices, how that is computed, and how far it may be off."""
    used = entry.utilisation
    if used is None:
        return []
    how = formula_sentence(used) if used.mfu is not None else ""
    return [("use of devices", rates_sentence(used)[:-1], how)]
