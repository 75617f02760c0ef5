"""The live cells of a scaling study: what their ranks left, read back."""

from dataclasses import replace
from pathlib import Path

from steptime.runs.record import run_record
from steptime.runs.run_folder import TRACE, read_record
from steptime.study.resimulate import training_step
from steptime.study.scale import Steps, times_of_steps
from steptime.study.scale_ideal import ideal_usage, work_of_steps
from steptime.study.scale_options import Grid, Point
from steptime.timeline import Timeline, read_chrome_trace
from steptime.timeline.efficiency import usage_of_steps
from steptime.train.config import GPT2Config
from steptime.train.options import JobOptions
from steptime.workloads.step import Measured


def folder_of(point: Point) -> str:
    """Where a cell's record and trace are within the run."""
    return f"cells/{point}"


def options_at(point: Point, grid: Grid, options: JobOptions) -> JobOptions:
    """What the ranks of a point are asked for; ``options`` have the batch that the user gave."""
    batch = grid.batch_at(point, options.train.batch)
    return replace(options, train=replace(options.train, batch=batch))


def read_cells(out: Path, point: Point, grid: Grid, options: JobOptions) -> list[Steps]:
    """The steps of all strategies that ran at a point of the run ``out``.

    Raises UsageError where its files are missing or truncated, or its steps have no efficiency.
    """
    folder = out / folder_of(point)
    timeline = read_chrome_trace(folder / TRACE)
    dimensions = run_record(read_record(folder), str(folder)).work.model_config or {}
    fields = ("layers", "heads", "embd", "context", "vocabulary")
    config = GPT2Config(**{field: dimensions[field] for field in fields})
    asked = options_at(point, grid, options)
    return [_steps(timeline, point, name, asked, config) for name in grid.strategies_at(point)]


def _steps(
    timeline: Timeline, point: Point, strategy: str, options: JobOptions, config: GPT2Config
) -> Steps:
    first = options.warmup
    usage = usage_of_steps(timeline, strategy, first=first, threads=point.threads)
    work = work_of_steps(timeline, strategy, first)
    once = Measured(compute_s=1.0, update_s=1.0)
    step = training_step(strategy, options, config, ranks=point.ranks, measured=once)
    return Steps(
        point=point,
        strategy=strategy,
        source="measured",
        times=times_of_steps(timeline, strategy, usage, first),
        usage=usage,
        ideal=ideal_usage(step.program, work, point.threads),
        other_s=float(work.other.mean()),
        tokens=options.train.batch * options.model.row(config),
        folder=folder_of(point),
    )
