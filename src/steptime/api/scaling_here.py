"""A scaling study on live ranks of this machine: what a rank of a point does, and what it makes."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from steptime.api.results import Run
from steptime.api.running import Backend, run_worlds
from steptime.errors import SteptimeError
from steptime.files import json_bytes, write_atomic
from steptime.runs import run_folder
from steptime.runs.record import Place, run_record, to_json
from steptime.runs.scale import ScaleRecord
from steptime.strategies import Strategy, check_backend, strategy_named
from steptime.study.record import training_record
from steptime.study.scale import Steps, recorded
from steptime.study.scale_live import all_fit, folder_of, options_at, order_of_turns, steps_of
from steptime.study.scale_options import Grid, Point
from steptime.timeline import packed_chrome_trace, read_chrome_trace
from steptime.train.asked import check_room
from steptime.train.data import check_data
from steptime.train.options import JobOptions
from steptime.turns import TurnOptions
from steptime.world.baton import BATON, Baton, batons


def check_here(grid: Grid, options: JobOptions, backend: str) -> None:
    """Raise UsageError where a point cannot be trained here."""
    config = options.model.config(vocabulary=1)
    check_room(config, options, backend)
    for point in grid.points:
        for strategy in grid.strategies_at(point):
            check_backend(strategy_named(strategy), backend)
        at = options_at(point, grid, options)
        at.train.rows_per_micro_batch(point.ranks)
        context = options.model.row(config)
        check_data(options.data, context=context, batch=at.train.batch, ranks=point.ranks)


def run_at(
    point: Point, grid: Grid, options: JobOptions, place: Place, on_step: Callable[[Strategy], None]
) -> Run | None:
    """Train as one of the ranks of a point under each of its strategies; the run on rank 0."""
    from steptime.study.compare import ALONE, compare
    from steptime.train.job import prepare_job

    held, rank = os.environ.get(BATON), int(os.environ["RANK"])
    turns = order_of_turns(grid, options)
    baton = Baton(Path(held), turns, str(point), rank) if held else ALONE
    job = prepare_job(options_at(point, grid, options), on_gpu=place.backend == "nccl")
    chosen = [strategy_named(name) for name in grid.strategies_at(point)]
    with baton:  # every point is ready when it comes again
        pass
    comparison = compare(job, chosen, TurnOptions(), on_step, baton)
    if comparison is None:
        return None
    record = training_record("compare", folder_of(point), comparison, job, place)
    return Run(record, comparison.timeline)


def in_turns(grid: Grid, options: JobOptions, backend: str) -> bool:
    """Whether all points are started at once, and take turns."""
    return backend != "nccl" and all_fit(grid, options)


@contextmanager
def baton_of(grid: Grid) -> Iterator[dict[str, str]]:
    """The variable by which the ranks of all points find their baton, inside of the block."""
    names = {str(point): point.ranks for point in grid.points}
    with (
        TemporaryDirectory(prefix="steptime-") as folder,
        batons(Path(folder), names, str(grid.points[0])),
    ):
        yield {BATON: folder}


def scaled(
    grid: Grid, options: JobOptions, backend: str, runs: Mapping[Point, Run], *, turns: bool
) -> ScaleRecord:
    """The record of what ranks trained here, from the run of each point."""
    steps = [one for point in grid.points for one in _steps(runs[point], point, grid, options)]
    work = replace(runs[grid.points[0]].record.work, spec=None, batch=options.train.batch)
    return recorded(
        *(grid, steps, work),
        cores=len(os.sched_getaffinity(0)),
        steps=options.steps - options.warmup,
        warmup=options.warmup,
        in_turns=turns,
        backend=backend,
    )


def scaled_here(
    grid: Grid, options: JobOptions, backend: Backend, timeout: float | str
) -> tuple[ScaleRecord, dict[str, bytes]]:
    """Start the ranks of every point; the record, and the files of its cells by their paths.

    Raises what ``st.run`` raises, and UsageError as ``check_here``.
    """
    check_here(grid, options, backend)
    turns = in_turns(grid, options, backend)
    work = partial(_at_own_point, grid, options, backend)
    runs: dict[Point, Run] = {}
    if turns:
        with baton_of(grid) as variables:
            runs |= _worlds(work, grid.points, backend, timeout, variables)
    else:
        for point in grid.points:
            runs |= _worlds(work, [point], backend, timeout, {})
    files = {path: one for point in grid.points for path, one in _files(point, runs[point])}
    return scaled(grid, options, backend, runs, turns=turns), files


def _worlds(
    work: Callable[[], Run | None],
    points: Sequence[Point],
    backend: Backend,
    timeout: float | str,
    variables: Mapping[str, str],
) -> dict[Point, Run]:
    """The runs of some points that are there at once."""
    worlds = [(point.ranks, point.threads) for point in points]
    results = run_worlds(work, worlds, backend=backend, timeout=timeout, variables=variables)
    runs = [run for run in results if run is not None]
    if len(runs) != len(points):
        raise SteptimeError("a rank 0 brought no figures home; please report this")
    return dict(zip(points, runs, strict=True))


def _at_own_point(grid: Grid, options: JobOptions, backend: str) -> Run | None:
    """What a rank that ``scale`` started does."""
    point = own_point()
    place = Place(
        world_size=point.ranks, threads=point.threads, backend=backend, launcher="steptime"
    )
    return run_at(point, grid, options, place, lambda _: None)


def _files(point: Point, run: Run) -> Iterator[tuple[str, bytes]]:
    """What a point leaves, by where it lies in the folder of the study."""
    assert run.timeline is not None  # noqa: S101 - measured just now
    yield f"{folder_of(point)}/{run_folder.RECORD}", json_bytes(to_json(run.record))
    yield f"{folder_of(point)}/{run_folder.TRACE}", packed_chrome_trace(run.timeline)


def write_point(out: Path, point: Point, run: Run) -> None:
    """Write what a point leaves into the folder of the study; OSError where that cannot be."""
    run_folder.create(out / folder_of(point))
    for path, content in _files(point, run):
        write_atomic(out / path, content)


def read_at(out: Path, point: Point) -> Run:
    """The run of a point that its ranks left in the study's folder.

    Raises UsageError where its files are missing or truncated.
    """
    folder = out / folder_of(point)
    record = run_record(run_folder.read_record(folder), str(folder))
    return Run(record, read_chrome_trace(folder / run_folder.TRACE))


def own_point() -> Point:
    """The point that this rank is of, as it was started."""
    return Point(int(os.environ["WORLD_SIZE"]), int(os.environ["OMP_NUM_THREADS"]))


def _steps(run: Run, point: Point, grid: Grid, options: JobOptions) -> list[Steps]:
    assert run.timeline is not None  # noqa: S101 - ranks leave theirs
    return steps_of(run.record, run.timeline, point, grid, options)
