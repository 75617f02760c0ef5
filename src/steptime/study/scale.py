"""How well a step scales: every cell of a grid against one of them, in the terms of POP."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from steptime.runs.environment import Environment
from steptime.runs.figures import ModelMemory
from steptime.runs.record import Work
from steptime.runs.scale import (
    Baseline,
    CellBound,
    ScaleCell,
    ScaleRecord,
    StepTimes,
    UsefulTime,
)
from steptime.study.scale_bound import bound_of
from steptime.study.scale_options import Grid, Point
from steptime.timeline import Source, Timeline
from steptime.timeline.efficiency import (
    Efficiency,
    Scaling,
    Usage,
    common_steps,
    efficiency,
    scaling,
)
from steptime.workloads.sync import sync_named


@dataclass(frozen=True, kw_only=True)
class Steps:
    """The steps of one cell, and what they come to on the ideal network.

    ``other_s``: what a rank does in a step that is neither useful nor communication, on average.
    ``tokens``: of one step, None where nothing is known of them. ``folder``: that of the cell's
    trace within the run. ``memory``: what a rank keeps of the model, where a
    device is given that it may not fit.
    """

    point: Point
    strategy: str
    source: Source
    times: StepTimes
    usage: Usage
    ideal: Usage
    other_s: float
    tokens: int | None
    folder: str
    memory: ModelMemory | None = None


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell and what has become of the baseline in it; ``oversubscribed``: on too few cores."""

    steps: Steps
    factors: Efficiency
    against: Scaling
    oversubscribed: bool
    bound: CellBound

    @property
    def execution(self) -> str:
        """sequential, fork-join (one rank of several threads), blocking, or overlapped."""
        point = self.steps.point
        if point.ranks == 1:
            return "sequential" if point.threads == 1 else "fork-join"
        return "overlapped" if sync_named(self.steps.strategy).overlapped else "blocking"


def times_of_steps(timeline: Timeline, name: str, usage: Usage, first: int) -> StepTimes:
    """How long the steps called ``name`` took, from step ``first`` on."""
    phases = common_steps(timeline, name, first)
    longest = phases["duration"].reshape(-1, usage.steps).max(axis=0)
    p10, median, p90 = (float(q) for q in np.percentile(longest, [10, 50, 90]))
    return StepTimes(mean=usage.run_time_s / usage.steps, median=median, p10=p10, p90=p90)


def cells_of(grid: Grid, everything: Sequence[Steps], cores: int | None) -> list[Cell]:
    """Every cell against the baseline of the grid; ``cores`` are those here, for live cells."""
    point, strategy = grid.baseline
    reference = next(s for s in everything if s.point == point and s.strategy == strategy)
    return [_cell(grid, steps, reference, cores) for steps in everything]


def _cell(grid: Grid, steps: Steps, reference: Steps, cores: int | None) -> Cell:
    factors = efficiency(steps.usage, steps.ideal)
    against = scaling(steps.usage, reference.usage, grid.kind)
    oversubscribed = cores is not None and steps.point.workers > cores
    return Cell(
        steps=steps,
        factors=factors,
        against=against,
        oversubscribed=oversubscribed,
        bound=bound_of(
            steps.usage,
            steps.ideal,
            against,
            other_s=steps.other_s,
            is_baseline=steps is reference,
            oversubscribed=oversubscribed,
        ),
    )


def scale_record(
    grid: Grid, cells: Sequence[Cell], work: Work, environment: Environment, **about: Any
) -> ScaleRecord:
    """The record of a study of ``work``; ``about``: further fields of it, on where it ran."""
    entries = [_entry(cell) for cell in cells]
    point, strategy = grid.baseline
    base = next(
        entry
        for cell, entry in zip(cells, entries, strict=True)
        if (cell.steps.point, cell.steps.strategy) == (point, strategy)
    )
    return ScaleRecord(
        work=work,
        scaling=grid.kind,
        baseline=Baseline(
            name=str(point),
            ranks=base.ranks,
            threads=base.threads,
            strategy=base.strategy,
            source=base.source,
            step_time_s=base.step_time_s,
            tokens_per_s=base.tokens_per_s,
        ),
        cells=entries,
        environment=environment,
        **about,
    )


def _entry(cell: Cell) -> ScaleCell:
    steps, usage = cell.steps, cell.steps.usage
    return ScaleCell(
        ranks=steps.point.ranks,
        threads=steps.point.threads,
        strategy=steps.strategy,
        execution=cell.execution,
        source=steps.source,
        step_time_s=steps.times.mean,
        step_time_spread_s=steps.times,
        iterations=usage.steps,
        tokens_per_s=steps.tokens / steps.times.mean if steps.tokens else None,
        tokens_per_s_scaling=cell.against.efficiency if steps.tokens else None,
        useful_s=UsefulTime(mean=usage.mean_s / usage.steps, longest=usage.longest_s / usage.steps),
        other_s=steps.other_s,
        ideal_step_time_s=steps.ideal.run_time_s / steps.ideal.steps,
        **asdict(cell.against),
        **asdict(cell.factors),
        oversubscribed=cell.oversubscribed,
        bound=cell.bound,
        folder=steps.folder,
        model_memory=steps.memory,
    )
