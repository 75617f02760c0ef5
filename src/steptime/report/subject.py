"""What a page is about: runs, and of each the strategies whose steps it took or simulated."""

from collections.abc import Sequence
from dataclasses import dataclass

from steptime.runs.figures import StepFigures
from steptime.runs.record import RunRecord
from steptime.timeline import Timeline


@dataclass(frozen=True, eq=False)
class Run:
    """A run as it is read back: its record and its timeline, with the folder's ``name``.

    ``timeline`` is None where that cannot be read, and ``missing`` then says why.
    """

    name: str
    record: RunRecord
    timeline: Timeline | None
    missing: str = ""


@dataclass(frozen=True, eq=False)
class Subject:
    """One strategy of a run.

    ``name`` is unique on the page, ``step`` what its steps are called in the timeline, and
    ``entry`` its figures.
    """

    name: str
    step: str
    entry: StepFigures
    run: Run

    @property
    def timeline(self) -> Timeline | None:
        """The whole run that it belongs to."""
        return self.run.timeline

    @property
    def ranks(self) -> int:
        """How many ranks the run had, or would have."""
        return self.run.record.place.world_size

    @property
    def first_step(self) -> int:
        """The first step that counts: what is simulated is in its steady state at the last."""
        record = self.run.record
        if self.entry.source == "simulated":
            return (record.timing.simulated_steps or 1) - 1
        return 0 if record.work.program else record.timing.warmup or 0


def subjects(runs: Sequence[Run]) -> list[Subject]:
    """The strategies of all runs; of several runs each is named after its run too."""
    found = []
    for run in runs:
        steps = run.record.strategies
        for name, entry in steps.items():
            shown = name
            if len(runs) > 1:
                shown = run.name if len(steps) == 1 else f"{run.name}: {name}"
            found.append(Subject(shown, run.record.step_name(name), entry, run))
    return found
