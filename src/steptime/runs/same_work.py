"""Whether runs did the same work, so that their step times may be compared.

What they must share follows from the fields of ``Work`` and of the StepSpec that it holds: all of
them but those that are marked, or named here, as what a person asks about. So a new option of a
step counts without a word here. What only one run says is not the same.

A record of version 1 holds no specification. What it did is known where it says its precision and
its batch, as trainings and simulations do, or else its calls, as proxies do: the number and bytes
of these show every option that changes them. Of a script, recorded or read from traces, its name is
all that is asked for: what changed in it is what people compare.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from steptime.emulated import Emulated
from steptime.errors import UsageError
from steptime.runs.codec import plain
from steptime.runs.record import RunRecord, Work
from steptime.units import Size

ASKED = ("strategy", "zero")
"""Fields of a specification that may differ, since they are what is compared."""

_SENTENCES: Mapping[str, str] = {
    "verb": "{}",
    "source": "{}",
    "model": "{}",
    "precision": "{}",
    "batch": "a batch of {}",
    "accumulate": "micro-batches: {}",
    "scale_bytes": "bytes scaled by {}",
    "calls": "calls of {}",
}


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What one strategy of a run did, and where.

    ``work``: what another run must have done too, as far as this one says it, and ``known``:
    whether that is all. ``told``: what may differ, and be the reason why step times do.
    """

    work: Mapping[str, Any]
    known: bool
    told: Mapping[str, Any]


def facts_of(record: RunRecord, strategy: str) -> Facts:
    """The facts of a strategy of a run."""
    figures, about, place = record.strategies[strategy], record.environment, record.place
    marked = {one.name for one in fields(Work) if one.metadata.get("told")}
    values = {one.name: getattr(record.work, one.name) for one in fields(Work)}
    values = {name: value for name, value in values.items() if value not in (None, {})}
    spec = values.pop("spec", None)
    spec = spec if figures.spec is None else figures.spec
    work = {
        "verb": record.verb,
        "source": figures.source,
        "ranks": place.world_size,
        **({"cluster": place.cluster} if figures.source == "simulated" else {}),
        **{name: value for name, value in values.items() if name not in marked},
    }
    known = spec is not None or ("precision" in work and "batch" in work)
    if spec is not None:
        said = {name: value for name, value in spec.items() if value is not None}
        work |= {name: value for name, value in said.items() if name not in ASKED}
        if record.work.precision:  # a step that was trained has more kinds than its specification
            work["precision"] = record.work.precision
    elif not known and figures.calls:
        work["calls"], known = sorted(map(str, plain(figures.calls))), True
    known = known or record.script is not None
    told = {
        "strategy": None if record.work.program else strategy,
        "backend": place.backend,
        "threads": place.threads,
        **{name: values.get(name) for name in sorted(marked)},
        "host": about.host or None,
        "emulated": about.emulated and _links(about.emulated),
        "cpu": about.cpu,
        "torch": about.versions.get("torch"),
        "git_revision": about.git_revision,
    }
    return Facts(work=work, known=known, told=told)


def _links(hosts: Emulated) -> str:
    """Which links this machine played."""
    faults = f", {len(hosts.faults)} faults" if hosts.faults else ""
    return f"{hosts.cluster}, {hosts.time_dilation:g} times slower{faults}"


def check_same_work(named: Sequence[tuple[str, Facts]], *, same_command: bool = False) -> None:
    """Raise UsageError, naming the difference, where two runs did not do the same work.

    ``named``: the facts of each by its name. ``same_command``: one command made them all, so that
    what not all say, as where one is of an older revision, is the same.
    """
    first, one = named[0]
    for name, other in named[1:]:
        both = f"{first} and {name} cannot be compared"
        if not same_command and not (one.known and other.known):
            raise UsageError(
                f"{both}: {name if one.known else first} does not say its precision, its batch or "
                "its calls, and what is not said is not the same; run it again"
            )
        for field in {**one.work, **other.work}:
            sides = [facts.work.get(field) for facts in (one, other)]
            missing = any(field not in facts.work for facts in (one, other))
            if same_command and missing:
                continue
            if sides[0] != sides[1] or missing:
                a, b = (_sentence(field, facts.work, sides) for facts in (one, other))
                raise UsageError(
                    f"{both}: {a} and {b}; give runs that differ in what you ask about"
                )


def differing(several: Sequence[Mapping[str, Any]]) -> list[str]:
    """The fields that not all of these works say, or not with one value."""
    names = dict.fromkeys(name for work in several for name in work)
    return [name for name in names if len({str(work.get(name)) for work in several}) > 1]


def told_differences(a: Sequence[Facts], b: Sequence[Facts]) -> Iterator[dict[str, Any]]:
    """What differs between two sides and may be the reason, as ``what``, ``a`` and ``b``."""
    for field in a[0].told:
        sides = [", ".join(sorted({str(facts.told[field]) for facts in side})) for side in (a, b)]
        if sides[0] != sides[1]:
            yield {"what": field.replace("_", " "), "a": sides[0], "b": sides[1]}


def _sentence(field: str, work: Mapping[str, Any], sides: Sequence[Any]) -> str:
    """What a run says of a field that differs; of several values those that do."""
    word = field.replace("_", " ")
    if field not in work:
        return f"no {word} said"
    value = work[field]
    if field == "bucket" and isinstance(value, int):
        return f"bucket {Size(value)}"
    if field == "ranks":
        return f"{value} rank{'s' * (value != 1)}"
    if isinstance(value, Mapping) and all(isinstance(side, Mapping) for side in sides):
        apart = differing(sides)
        return ", ".join(f"{name} {value.get(name, 'not said')}" for name in apart)
    if field == "calls":
        other = next(side for side in sides if side is not value)
        value = next((call for call in value if call not in other), "fewer kinds")
    return _SENTENCES.get(field, f"{word} {{}}").format(value)
