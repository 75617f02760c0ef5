"""The live cells of a scaling study: how they take turns, and what their steps come to."""

from dataclasses import replace

import numpy as np

from steptime.host_memory import available_bytes
from steptime.runs.record import RunRecord
from steptime.runs.scale import exposed_time
from steptime.runs.utilisation import utilisation
from steptime.study.resimulate import training_step
from steptime.study.scale import Steps, times_of_steps
from steptime.study.scale_ideal import ideal_usage, work_of_steps
from steptime.study.scale_options import Grid, Point
from steptime.timeline import Timeline
from steptime.timeline.efficiency import common_steps, usage_of_steps
from steptime.train.options import JobOptions
from steptime.turns import TurnOptions
from steptime.workloads.models import Transformer
from steptime.workloads.step import Measured

_PROCESS_BYTES = 512 * 2**20
"""What a rank takes before it has a model."""


def folder_of(point: Point) -> str:
    """Where a cell's record and trace are within the run."""
    return f"cells/{point}"


def options_at(point: Point, grid: Grid, options: JobOptions) -> JobOptions:
    """What the ranks of a point are asked for; ``options`` have the batch that the user gave."""
    batch = grid.batch_at(point, options.train.batch)
    return replace(options, train=replace(options.train, batch=batch))


def all_fit(grid: Grid, options: JobOptions) -> bool:
    """Whether the ranks of all points may be there at once, with a training under every strategy.

    Those that have a GPU of their own are not.
    """
    from steptime.study.compare import BYTES_OF_PARAMETER, PART_OF_MEMORY

    config = options.model.config(vocabulary=1)
    needed = sum(
        point.ranks
        * (
            _PROCESS_BYTES
            + len(grid.strategies_at(point)) * BYTES_OF_PARAMETER * config.padded().parameters
        )
        for point in grid.points
    )
    return needed <= PART_OF_MEMORY * available_bytes()


def order_of_turns(grid: Grid, options: JobOptions) -> list[str]:
    """The points by name in the order in which they get the baton.

    Each once when it is ready, then turn by turn in an order drawn from the seed, and each once
    when all are done.
    """
    names = [str(point) for point in grid.points]
    turns = len(TurnOptions().blocks(options.steps - options.warmup))
    drawn = (
        np.random.default_rng([options.seed, turn, 1]).permutation(names) for turn in range(turns)
    )
    return [*names, *(str(name) for turn in drawn for name in turn), *names]


def steps_of(
    record: RunRecord, timeline: Timeline, point: Point, grid: Grid, options: JobOptions
) -> list[Steps]:
    """The steps of all strategies that ran at a point; UsageError where they have no efficiency."""
    blocks = record.turns.blocks if record.turns else ()
    asked = options_at(point, grid, options)
    config = asked.model.config((record.work.model_config or {})["vocabulary"])
    found = []
    for name in grid.strategies_at(point):
        steps, used = _steps(timeline, point, name, asked, config), record.strategies[name]
        work = used.utilisation.work if used.utilisation else None
        turn_s = {block.turn: block.step_time_s for block in blocks if block.strategy == name}
        found.append(replace(steps, turn_s=turn_s, used=utilisation(work, steps.times.mean)))
    return found


def _steps(
    timeline: Timeline, point: Point, strategy: str, options: JobOptions, config: Transformer
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
        exposed=exposed_time(common_steps(timeline, strategy, first)),
        tokens=options.train.batch * options.model.row(config),
        folder=folder_of(point),
    )
