"""A section of the page: one file in ``sections/`` for what it shows, and its HTML beside it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from steptime.report.about import sources
from steptime.report.subject import Run, Subject, subjects
from steptime.runs.figures import StepFigures
from steptime.runs.record import RunRecord


@dataclass(frozen=True)
class Page:
    """The runs that a page is about."""

    runs: Sequence[Run]

    @property
    def record(self) -> RunRecord:
        """The record of the run, or of the first of several."""
        return self.runs[0].record

    @property
    def single(self) -> bool:
        """Whether it is about one run."""
        return len(self.runs) == 1

    @cached_property
    def subjects(self) -> list[Subject]:
        """The strategies of all runs, in the order of the terminal: the fastest that fits first."""
        return sorted(subjects(self.runs), key=lambda one: one.entry.standing)

    @cached_property
    def strategies(self) -> dict[str, StepFigures]:
        """The figures of each by its name on the page."""
        return {one.name: one.entry for one in self.subjects}

    @property
    def source(self) -> str:
        """How their times came about."""
        return sources(self.strategies.values())

    @cached_property
    def first(self) -> Subject:
        """The strategy that is shown first: the fastest."""
        if self.single:
            return next(one for one in self.subjects if one.name == self.record.fastest)
        return min(self.subjects, key=lambda one: one.entry.step_time_s.median)


@dataclass(frozen=True)
class Section:
    """One section of the page, as a module of ``sections/`` defines it by the name SECTION.

    ``order``: where it stands. ``shown``: what its template, the HTML file of the module's name,
    shows of a page, None where it has nothing to show. What is in there under ``figures`` is drawn
    by plotly.js, each in the element whose data-figure is its name.
    """

    name: str
    order: int
    shown: Callable[[Page], Mapping[str, Any] | None]
