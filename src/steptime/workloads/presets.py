"""Presets: published runs, rebuilt as programs to simulate beside what was measured."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from steptime.errors import UsageError
from steptime.nearest import mend
from steptime.program import Program
from steptime.timeline import Phase, Timeline
from steptime.workloads.data_parallel import data_parallel
from steptime.workloads.models import model_named
from steptime.workloads.sync import sync_named

_FOLDER = files("steptime.workloads") / "presets"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One way to run the step: its program, which has its name, and the algorithms by kind."""

    name: str
    summary: str
    program: Program
    algorithms: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Published:
    """A measured figure: how long ``what`` took in the run that ``case`` rebuilds, in seconds.

    ``what`` is ``step``, ``compute``, or a collective by the name of its op. ``how`` says what the
    simulated figure owes to this one.
    """

    label: str
    seconds: float
    case: str
    what: str
    how: str


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A published run: ``cluster`` by its name, the cases to compare and the measured figures.

    ``compute_s``: forward and backward of a worker; ``update_s``: the update of all parameters.
    """

    name: str
    title: str
    source: str
    cluster: str
    compute_s: float
    update_s: float
    cases: tuple[Case, ...]
    published: tuple[Published, ...]

    def case(self, name: str) -> Case:
        """The case called ``name``."""
        return next(case for case in self.cases if case.name == name)


def preset_names() -> tuple[str, ...]:
    """The names of all presets."""
    return tuple(sorted(file.name.removesuffix(".toml") for file in _FOLDER.iterdir()))


def preset_named(name: str) -> Preset:
    """The preset of that name; raises UsageError, naming all there are, where there is none."""
    if name not in preset_names():
        raise UsageError(f"there is no preset {name!r}: {mend(name, preset_names())}")
    text = tomllib.loads((_FOLDER / f"{name}.toml").read_text())
    return Preset(
        name=name,
        title=text["title"],
        source=text["source"],
        cluster=text["cluster"],
        compute_s=text["compute_s"],
        update_s=text["update_s"],
        cases=tuple(_case(row, text) for row in text["case"]),
        published=tuple(Published(**row) for row in text["published"]),
    )


def _case(row: Mapping[str, Any], run: Mapping[str, Any]) -> Case:
    """A case of a run; a rank that updates a part of the parameters takes that part of the time."""
    ranks = row["ranks"]
    owned = sync_named(row["strategy"]).owned(ranks, ranks, is_root=True) / ranks
    program = data_parallel(
        model_named(run["model"]),
        row["strategy"],
        ranks=ranks,
        batch=ranks
        - row.get("dedicated_server", False),  # as many rows as workers: times are given
        dtype=run["dtype"],
        clip=False,
        compute_s=run["compute_s"],
        update_s=run["update_s"] * owned,
        dedicated_server=row.get("dedicated_server", False),
    )
    return Case(
        name=row["name"],
        summary=row["summary"],
        program=replace(program, name=row["name"]),
        algorithms=row["algorithms"],
    )


def seconds_of(what: str, timeline: Timeline) -> float:
    """How long ``what``, as Published has it, took in the last step of a timeline, in seconds.

    A collective takes from when its last rank begins it until the last is done.

    Raises UsageError when nothing there is called so.
    """
    rows = timeline.intervals
    rows = rows[rows["step"] == rows["step"].max()]
    if what == "step":
        steps = rows[rows["phase"] == Phase.STEP]
        return float((steps["end"] - steps["start"]).max())
    if what == "compute":
        working = rows[rows["phase"] == Phase.COMPUTE]
        return float(working["end"].max() - working["start"].min())
    called = (
        rows[rows["name"] == timeline.names.index(what)] if what in timeline.names else rows[:0]
    )
    if not called.size:
        raise UsageError(f"nothing in the timeline is called {what!r}")
    return float(called["end"].max() - called["start"].max())
