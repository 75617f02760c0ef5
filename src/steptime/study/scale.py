"""How well a step scales: every cell of a grid against one of them, in the terms of POP."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from steptime.ratios import CONFIDENCE, as_ratio, paired
from steptime.runs.environment import Environment, here
from steptime.runs.expected import Expected
from steptime.runs.figures import ComputeSpeed, ModelMemory
from steptime.runs.record import Work
from steptime.runs.scale import (
    Baseline,
    CellBound,
    ExposedTime,
    ScaleCell,
    ScaleRecord,
    StepTimes,
    UsefulTime,
)
from steptime.runs.utilisation import Utilisation
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

    ``other_s``: what a rank does in a step that is neither useful nor communication, on average,
    and ``exposed``: its communication that nothing hides, and the parts of that, likewise.
    ``tokens``: of one step, None where nothing is known of them. ``folder``: that of the cell's
    trace within the run. ``memory``: what a rank keeps of the model, where a device is given that
    it may not fit. ``turn_s``: the median step of each of its turns, by number, where it took any.
    ``speed``: what simulated computing stands on. ``used``: what the mean step uses of its devices,
    and ``expected``: how far a simulated one may be from a measured one.
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
    exposed: ExposedTime = field(default_factory=ExposedTime)
    memory: ModelMemory | None = None
    turn_s: Mapping[int, float] = field(default_factory=dict)
    speed: ComputeSpeed | None = None
    used: Utilisation | None = None
    expected: Expected | None = None


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell and what has become of the baseline in it; ``oversubscribed``: on too few cores.

    ``speedup_ci95``: what holds the true speedup; of all cells together with 95 %. None where the
    cell took no turns with the baseline.
    """

    steps: Steps
    factors: Efficiency
    against: Scaling
    oversubscribed: bool
    bound: CellBound
    speedup_ci95: tuple[float, float] | None

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


def cells_of(
    grid: Grid, everything: Sequence[Steps], cores: int | None, *, in_turns: bool = False
) -> list[Cell]:
    """Every cell against the baseline of the grid; ``cores`` are those here, for live cells.

    ``in_turns``: all points took turns; those of one point always do.
    """
    point, strategy = grid.baseline
    reference = next(s for s in everything if s.point == point and s.strategy == strategy)
    others = max(1, len(everything) - 1)
    return [
        _cell(grid, steps, reference, cores, others if in_turns or steps.point == point else 0)
        for steps in everything
    ]


def _interval(
    speedup: float, steps: Steps, reference: Steps, others: int
) -> tuple[float, float] | None:
    """What holds the speedup with 95 %, of so many cells together; None where nothing tells."""
    turns = sorted(steps.turn_s.keys() & reference.turn_s.keys())
    if len(turns) < 2 or not others:
        return None
    own, base = (np.log([one.turn_s[turn] for turn in turns]) for one in (steps, reference))
    found = replace(paired(own, base), center=math.log(speedup))
    low, high = found.interval(1 - (1 - CONFIDENCE) / others)
    return as_ratio(low), as_ratio(high)


def _cell(grid: Grid, steps: Steps, reference: Steps, cores: int | None, others: int) -> Cell:
    factors = efficiency(steps.usage, steps.ideal)
    against = scaling(steps.usage, reference.usage, grid.kind)
    oversubscribed = cores is not None and steps.point.workers > cores
    return Cell(
        steps=steps,
        factors=factors,
        against=against,
        oversubscribed=oversubscribed,
        speedup_ci95=_interval(against.speedup, steps, reference, others),
        bound=bound_of(
            steps.usage,
            steps.ideal,
            against,
            other_s=steps.other_s,
            is_baseline=steps is reference,
            oversubscribed=oversubscribed,
        ),
    )


def recorded(
    grid: Grid, steps: Sequence[Steps], work: Work, /, cores: int | None = None, **about: Any
) -> ScaleRecord:
    """The record of a study of ``work`` that was made now and here, on so many ``cores`` if live.

    ``about``: further fields of it, on where it ran.
    """
    cells = cells_of(grid, steps, cores, in_turns=bool(about.get("in_turns")))
    return scale_record(grid, cells, work, here(), cores=cores, **about)


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
        **asdict(steps.exposed),
        ideal_step_time_s=steps.ideal.run_time_s / steps.ideal.steps,
        **asdict(cell.against),
        **asdict(cell.factors),
        oversubscribed=cell.oversubscribed,
        speedup_ci95=cell.speedup_ci95,
        bound=cell.bound,
        folder=steps.folder,
        model_memory=steps.memory,
        compute_speed=steps.speed,
        utilisation=steps.used,
        expected=steps.expected,
    )
