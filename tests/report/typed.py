"""Records made of the JSON that the fixtures here build."""

from collections.abc import Mapping
from typing import Any

from steptime.runs.figures import StepFigures
from steptime.runs.proxy_step import with_ranks
from steptime.runs.record import RunRecord, run_record
from steptime.timeline import Timeline


def record(run: Mapping[str, Any], timeline: Timeline | None = None) -> RunRecord:
    """A run's record, of a proxy with the ranks that its timeline holds."""
    made = run_record(run, "made")
    return made if timeline is None else with_ranks(made, timeline)


def figures(run: Mapping[str, Any]) -> Mapping[str, StepFigures]:
    """The figures of its strategies."""
    return record(run).strategies
