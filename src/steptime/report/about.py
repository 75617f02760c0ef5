"""What a run says of itself: how many ranks, where, and how its figures came about."""

from collections.abc import Iterable

from steptime.runs.environment import Environment
from steptime.runs.figures import ComputeSpeed, StepFigures
from steptime.runs.record import RunRecord


def rank_counts(run: RunRecord) -> str:
    """How many ranks, where strategies may have different ones: ``8 or 9 ranks``."""
    counts = sorted({len(entry.ranks) for entry in run.strategies.values()})
    texts = [f"{count:,}" for count in counts]
    return f"{' or '.join(texts)} rank{'s' * (counts[-1] != 1)}"


def place(run: RunRecord) -> str:
    """Where its figures hold: ``here`` or ``on CLUSTER``."""
    return f"on {run.place.cluster}" if run.place.cluster else "here"


def machine_rows(about: Environment) -> list[tuple[str, str]]:
    """When a run was made, and on what, as a page lists it."""
    versions = ", ".join(f"{name} {version}" for name, version in about.versions.items())
    return [
        ("time", about.time),
        ("machine", f"{about.host}, {about.cpu}, {about.cores} cores"),
        ("software", f"steptime {about.steptime}, Python {about.python}, {versions}"),
    ]


def played_by(about: Environment) -> str:
    """That this machine played the hosts, after a comma; nothing where it did not."""
    if (hosts := about.emulated) is None:
        return ""
    slower = f", clocks {hosts.time_dilation:g} times slower" if hosts.time_dilation != 1 else ""
    return f", on {hosts.hosts} emulated hosts of {hosts.cluster}{slower}"


def standing_on(speed: ComputeSpeed | None) -> str:
    """What simulated times of computing stand on, after a semicolon; nothing of measured ones."""
    return f"; {speed}" if speed else ""


def sources(entries: Iterable[StepFigures]) -> str:
    """How the times of these strategies came about: ``measured``, or ``measured, simulated``."""
    return ", ".join(dict.fromkeys(entry.source for entry in entries))


def byte_sources(entries: Iterable[StepFigures]) -> str:
    """How their bytes came about: a live run computes them, a simulation counts its messages."""
    return ", ".join(
        dict.fromkeys(
            "simulated" if entry.source == "simulated" else "computed" for entry in entries
        )
    )
