"""``scale``: How well does a step scale, and what holds it back?"""

import os
import sys
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from steptime.cli.options import Flat, OutputOptions, RankOptions
from steptime.cli.printing import say, say_json, writing
from steptime.cli.ranks import Place, check_torch, on_ranks
from steptime.errors import UsageError
from steptime.files import write_atomic
from steptime.points.options import SweepOptions
from steptime.runs import run_folder
from steptime.study.scale_options import LiveOptions, refuse_live_options, refuse_sweep_options
from steptime.train.options import DataOptions, JobOptions
from steptime.turns import TurnOptions
from steptime.workloads.spec import StepSpec
from steptime.world import World, detect

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from steptime.cluster import Cluster
    from steptime.runs.record import Work
    from steptime.study.cases import Asked
    from steptime.study.scale import Steps
    from steptime.study.scale_options import Grid, Point
    from steptime.study.scale_simulated import Simulated


def scale(
    name: Annotated[str | None, Parameter(name="MODEL")] = None,
    /,
    *,
    ranks: str = "1,2,4",
    names: Annotated[str, Parameter(name="--strategies")] = "replicated,overlapped",
    strong: bool = False,
    weak: bool = False,
    baseline: str | None = None,
    cluster: str | None = None,
    data: Flat[DataOptions] = DataOptions(),  # first, for --data is the text here and no axis
    step: Flat[StepSpec] = StepSpec(),
    live: Flat[LiveOptions] = LiveOptions(),
    sweep: Flat[SweepOptions] = SweepOptions(),
    output: Flat[OutputOptions] = OutputOptions(),
) -> int:
    """How well does a step scale, and what holds it back?

    Runs all numbers of ranks with all of threads, and holds each cell against one of them.

    Parameters
    ----------
    name
        What is trained: a GPT-2, as gpt2-124M or its file; default: gpt2-nano. On a cluster any
        model that steptime proxy list shows; default: gpt2-124M.
    ranks
        Numbers of ranks, with commas between them.
    names
        Strategies of more than one rank, with commas between them; all are those that can run.
    strong
        --batch, by default 32, is the global batch, the same on any number of ranks; the default
        here.
    weak
        --batch is the batch of each rank, the same on any number of them; the default on a cluster.
    baseline
        RANKSxTHREADS of the cell that the others are held against, as 1x1, or 2x1:overlapped with
        its strategy; default: the fewest ranks and threads.
    cluster
        Simulate all cells on this cluster instead, a file or a name that `steptime cluster list`
        shows.

    """
    from steptime.study.scale_options import asked_kind, live_job, make_grid, parse_counts
    from steptime.workloads.sync import strategy_of_zero

    kind = asked_kind(strong=strong, weak=weak, simulated=cluster is not None)
    counts = parse_counts(ranks, "ranks"), parse_counts(live.threads, "threads")
    names = strategy_of_zero(step.zero, step.strategy) or names
    step = replace(step, strategy=None, zero=None)
    if cluster is not None:
        step = _there(name, step, live, data)
        grid = make_grid(*counts, _named(names, cluster), kind, baseline)
        return _on_cluster(grid, step, cluster, sweep, output)
    refuse_sweep_options(sweep)
    options = live_job(replace(step, model=name or ""), data, live)
    grid = make_grid(*counts, _named(names, None, live.backend), kind, baseline)
    of_ranks = RankOptions(backend=live.backend, timeout=live.timeout)
    if world := detect(os.environ):
        return _one_point(world, grid, options, of_ranks, output)
    return _here(grid, options, of_ranks, output)


def _there(name: str | None, step: StepSpec, live: LiveOptions, data: DataOptions) -> StepSpec:
    """The step on a cluster, where --vocabulary is the model's; UsageError for a live option."""
    refuse_live_options(replace(live, threads="1"), replace(data, vocabulary=None))
    return replace(step, model=name or "gpt2-124M", vocabulary=data.vocabulary)


def _named(names: str, cluster: str | None, backend: str = "") -> list[str]:
    """The strategies asked for; raises UsageError for one that nobody can train under here."""
    from steptime.strategies import live_strategies, live_strategy

    if names != "all":
        asked = list(dict.fromkeys(names.split(",")))
        return asked if cluster else [live_strategy(name).name for name in asked]
    if cluster is None:
        return [
            s.name
            for s in live_strategies().values()
            if backend != "nccl" or not s.in_shared_memory
        ]
    from steptime.cluster.files import cluster_named
    from steptime.study.cases import able_strategies

    return able_strategies(cluster_named(cluster))


def _here(grid: "Grid", options: JobOptions, ranks: RankOptions, output: OutputOptions) -> int:
    """Start the ranks of one point after the other, then read back what they left."""
    check_torch("scale", ranks.backend)
    from steptime.strategies import check_backend, strategy_named
    from steptime.study.scale_live import all_fit, options_at, read_cells
    from steptime.train.asked import check_room
    from steptime.train.data import check_data

    config = options.model.config(vocabulary=1)
    check_room(config, options, ranks.backend)
    for point in grid.points:
        for strategy in grid.strategies_at(point):
            check_backend(strategy_named(strategy), ranks.backend)
        at = options_at(point, grid, options)
        at.train.rows_per_micro_batch(point.ranks)
        context = options.model.row(config)
        check_data(options.data, context=context, batch=at.train.batch, ranks=point.ranks)
    with run_folder.created(_folder(output)) as out:
        if not (output.quiet or output.json):
            say(f"{config.name}: {config.layers} layers of width {config.hidden}")
        command = [sys.executable, "-m", "steptime", *sys.argv[1:]]
        if output.out is None:
            command += ["--out", str(out)]
        in_turns = ranks.backend != "nccl" and all_fit(grid, options)
        if code := _start(command, grid, in_turns=in_turns):
            return code
        steps = [one for point in grid.points for one in read_cells(out, point, grid, options)]
        cores = len(os.sched_getaffinity(0))
        about: dict[str, Any] = {"steps": options.steps - options.warmup, "warmup": options.warmup}
        about |= {"in_turns": in_turns, "backend": ranks.backend}
        work = _work_here(out, grid, options)
        _answer(grid, steps, work, out, output, cores, **about)
    return 0


def _start(command: list[str], grid: "Grid", *, in_turns: bool) -> int:
    """Run the ranks of all points, together in turns or one point after the other."""
    from steptime.launch import run_ranks, run_worlds
    from steptime.world.baton import BATON, batons

    if not in_turns:
        codes = (run_ranks(command, point.ranks, point.threads) for point in grid.points)
        return next((code for code in codes if code), 0)
    worlds = [(point.ranks, point.threads) for point in grid.points]
    names = {str(point): point.ranks for point in grid.points}
    with (
        TemporaryDirectory(prefix="steptime-") as folder,
        batons(Path(folder), names, str(grid.points[0])),
    ):
        return run_worlds(command, worlds, {**os.environ, BATON: folder})


def _folder(output: OutputOptions) -> Path:
    return output.out or run_folder.default_path("scale", datetime.now())


def _work_here(out: Path, grid: "Grid", options: JobOptions) -> "Work":
    """What was trained, as the ranks of the first point say: all but what depends on the point."""
    from steptime.runs.record import run_record
    from steptime.study.scale_live import folder_of

    folder = out / folder_of(grid.points[0])
    record = run_record(run_folder.read_record(folder), str(folder))
    return replace(record.work, spec=None, batch=options.train.batch)


def _one_point(
    world: World, grid: "Grid", options: JobOptions, ranks: RankOptions, output: OutputOptions
) -> int:
    """Be one rank of a point, as the process that started it asked."""
    from steptime.study.scale_options import Point

    if world.launcher != "steptime":
        raise UsageError(
            "scale starts the ranks of each cell by itself: run it without a launcher, or run "
            "compare under the launcher once for each number of ranks"
        )
    point = Point(world.size, int(os.environ["OMP_NUM_THREADS"]))

    def work(place: Place) -> None:
        _measure(point, grid, options, place, ranks, output)

    own = replace(ranks, ranks=point.ranks, threads=point.threads)
    return on_ranks("scale", own, output, point.ranks, lambda _: None, work)


def _measure(
    point: "Point",
    grid: "Grid",
    options: JobOptions,
    place: Place,
    ranks: RankOptions,
    output: OutputOptions,
) -> None:
    """Train under every strategy of a point, and leave what was measured."""
    from steptime.cli.answer import record_place
    from steptime.runs.record import to_json
    from steptime.strategies import strategy_named
    from steptime.study.compare import ALONE, compare
    from steptime.study.record import training_record
    from steptime.study.scale_live import folder_of, options_at, order_of_turns
    from steptime.timeline import write_chrome_trace
    from steptime.train.job import prepare_job
    from steptime.world.baton import BATON, Baton

    rank, held = place.world.rank, os.environ.get(BATON)
    order = order_of_turns(grid, options)
    baton = Baton(Path(held), order, str(point), rank) if held else ALONE
    job = prepare_job(options_at(point, grid, options), on_gpu=ranks.backend == "nccl")
    chosen = [strategy_named(name) for name in grid.strategies_at(point)]
    with baton:  # every point is ready when it comes again
        pass
    with output.progress(rank if point == grid.points[0] or not held else 1) as progress:
        bars = {
            s.name: progress.add_task(f"{point} {s.name}", total=options.steps, start=False)
            for s in chosen
        }
        advance = lambda one: progress.update(bars[one.name], advance=1)  # noqa: E731
        comparison = compare(job, chosen, TurnOptions(), advance, baton)
    if comparison is None:
        return
    folder = run_folder.create(place.out / folder_of(point))
    record = training_record("compare", str(folder), comparison, job, record_place(place, ranks))
    with writing(folder):
        run_folder.write_record(folder, to_json(record))
        write_chrome_trace(folder / "trace.json.gz", comparison.timeline)


def _on_cluster(
    grid: "Grid", spec: StepSpec, cluster: str, sweep: SweepOptions, output: OutputOptions
) -> int:
    """Simulate every point on a cluster."""
    from steptime.cli.compiling import told_of_compiling
    from steptime.cluster.files import cluster_named
    from steptime.points.mpi import refuse_copies
    from steptime.runs.codec import decoded
    from steptime.runs.record import Work
    from steptime.study.scale_simulated import asked_at, batch_of

    world = detect(os.environ)
    refuse_copies(world.size if world else 1, "scale")
    there = cluster_named(cluster)
    asked = {point: asked_at(point, grid, spec, there) for point in grid.points}
    steps: list[Steps] = []
    with run_folder.created(_folder(output)) as out, told_of_compiling(output), writing(out):
        for found in _simulated(asked, grid, spec, there, sweep, output):
            folder = run_folder.create(out / found.steps[0].folder)
            write_atomic(folder / run_folder.TRACE, found.trace)
            steps += found.steps
    first = asked[grid.points[0]]
    facts = dict(first.facts)
    facts["batch"] = batch_of(spec, grid)
    facts["spec"] = first.facts_of[first.cases[0].name]["spec"]
    about: dict[str, Any] = {
        "cluster": there.name,
        "cluster_title": there.title,
        "cluster_source": there.source,
    }
    _answer(grid, steps, decoded(facts, Work), out, output, **about)
    return 0


def _simulated(
    asked: "Mapping[Point, Asked]",
    grid: "Grid",
    spec: StepSpec,
    cluster: "Cluster",
    sweep: SweepOptions,
    output: OutputOptions,
) -> "Iterator[Simulated]":
    """All points in order, by whoever is asked to simulate them, or as they were kept."""
    from steptime.points.codec import Typed
    from steptime.points.sweep import points
    from steptime.study.scale_simulated import (
        Simulated,
        how_at_all,
        identity_of,
        simulate_at,
    )

    kept = 0
    with sweep.executor() as executor, output.progress(0) as progress:
        calls = {point: 2 * len(one.cases) for point, one in asked.items()}
        advance = partial(progress.advance, progress.add_task("steps", total=sum(calls.values())))
        there = partial(simulate_at, grid=grid, spec=spec, cluster=cluster)
        swept = points(
            there if executor else partial(there, on_case=advance),
            list(asked),
            Typed(Simulated),
            executor=executor,
            cache=sweep.kept(),
            identities=lambda point: identity_of(asked[point], how_at_all(grid)),
            named="scale",
        )
        for point, done in zip(asked, swept, strict=True):
            if executor or done.kept:
                advance(calls[point])
            kept += done.kept
            yield done.result
    if kept and not (output.quiet or output.json):
        print(f"{kept} of {len(asked)} points are those that {sweep.cache} keeps", file=sys.stderr)


def _answer(
    grid: "Grid",
    cells: list["Steps"],
    work: "Work",
    out: Path,
    output: OutputOptions,
    cores: int | None = None,
    **about: Any,
) -> None:
    """Write run.json and report.html, then print the answer; ``about`` as in ``scale_record``."""
    from steptime.report.scale_page import write_scale
    from steptime.report.scale_table import print_scale
    from steptime.runs.environment import here
    from steptime.runs.scale import scale_json
    from steptime.study.scale import cells_of, scale_record

    run = scale_record(
        grid,
        cells_of(grid, cells, cores, in_turns=bool(about.get("in_turns"))),
        work,
        here(),
        run=str(out),
        cores=cores,
        **about,
    )
    with writing(out):
        run_folder.write_record(out, scale_json(run))
        write_scale(out / "report.html", run)
    if output.json:
        say_json(scale_json(run))
        return
    text = output.rendered(lambda console: print_scale(console, run))
    say(f"{text}\n\nreport: {out / 'report.html'}")
