"""``scale``: How well does a step scale, and what holds it back?"""

import json
import os
import sys
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from steptime.cli.options import Flat, OutputOptions, RankOptions
from steptime.cli.printing import say, writing
from steptime.cli.ranks import Place, on_ranks
from steptime.errors import UsageError
from steptime.runs import run_folder
from steptime.study.scale_options import LiveOptions, refuse_live_options
from steptime.train.config import name_of
from steptime.train.options import DataOptions, JobOptions
from steptime.workloads.spec import StepSpec
from steptime.world import World, detect

if TYPE_CHECKING:
    from steptime.runs.record import Work
    from steptime.study.scale import Steps
    from steptime.study.scale_options import Grid, Point


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
    output: Flat[OutputOptions] = OutputOptions(),
) -> int:
    """How well does a step scale, and what holds it back?

    Runs every number of ranks with every number of threads, and holds each cell against one of
    them.

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
        refuse_live_options(replace(live, threads="1"), data)  # threads are refused by point
        grid = make_grid(*counts, _named(names, cluster), kind, baseline)
        return _on_cluster(grid, replace(step, model=name or "gpt2-124M"), cluster, output)
    options = live_job(replace(step, model=name or ""), data, live)
    grid = make_grid(*counts, _named(names, None, live.backend), kind, baseline)
    world = detect(os.environ)
    of_ranks = RankOptions(backend=live.backend, timeout=live.timeout)
    if world is None:
        return _here(grid, options, of_ranks, output)
    return _one_point(world, grid, options, of_ranks, output)


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
    from steptime.launch import run_ranks
    from steptime.strategies import check_backend, strategy_named
    from steptime.study.scale_live import options_at, read_cells
    from steptime.train.data import check_data

    config = options.model.config(vocabulary=1)
    for point in grid.points:
        for strategy in grid.strategies_at(point):
            check_backend(strategy_named(strategy), ranks.backend)
        at = options_at(point, grid, options)
        at.train.rows_per_micro_batch(point.ranks)
        context = options.model.row(config)
        check_data(options.data, context=context, batch=at.train.batch, ranks=point.ranks)
    out = run_folder.create(output.out or run_folder.default_path("scale", datetime.now()))
    if not (output.quiet or output.json):
        say(f"{name_of(config)}: {config.layers} layers of width {config.embd}")
    command = [sys.executable, "-m", "steptime", *sys.argv[1:]]
    if output.out is None:
        command += ["--out", str(out)]
    steps: list[Steps] = []
    for point in grid.points:
        if code := run_ranks(command, point.ranks, point.threads):
            return code
        steps += read_cells(out, point, grid, options)
    cores = len(os.sched_getaffinity(0))
    about = {"steps": options.steps - options.warmup, "warmup": options.warmup}
    work = _work_here(out, grid, options)
    _answer(grid, steps, work, out, output, cores, backend=ranks.backend, **about)
    return 0


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
    from steptime.study.compare import compare
    from steptime.study.record import training_record
    from steptime.study.scale_live import folder_of, options_at
    from steptime.timeline import write_chrome_trace
    from steptime.train.job import prepare_job

    job = prepare_job(options_at(point, grid, options), on_gpu=ranks.backend == "nccl")
    chosen = [strategy_named(name) for name in grid.strategies_at(point)]
    with output.progress(place.world.rank) as progress:
        bars = {
            s.name: progress.add_task(f"{point} {s.name}", total=options.steps, start=False)
            for s in chosen
        }
        comparison = compare(
            job, chosen, lambda s, done: progress.update(bars[s.name], completed=done.step + 1)
        )
    if comparison is None:
        return
    folder = run_folder.create(place.out / folder_of(point))
    record = training_record("compare", str(folder), comparison, job, record_place(place, ranks))
    with writing(folder):
        run_folder.write_record(folder, to_json(record))
        write_chrome_trace(folder / "trace.json.gz", comparison.timeline)


def _on_cluster(grid: "Grid", spec: StepSpec, cluster: str, output: OutputOptions) -> int:
    """Simulate every point on a cluster."""
    from steptime.cluster.files import cluster_named
    from steptime.runs.codec import decoded
    from steptime.runs.record import Work
    from steptime.study.scale_simulated import batch_of, prepare_point, simulate_point
    from steptime.timeline import write_chrome_trace

    there = cluster_named(cluster)
    ready = [prepare_point(point, grid, spec, there) for point in grid.points]
    out = run_folder.create(output.out or run_folder.default_path("scale", datetime.now()))
    steps: list[Steps] = []
    with output.progress(0) as progress, writing(out):
        for one in ready:
            bar = progress.add_task(f"{one.point.ranks} ranks", total=2 * len(one.asked.cases))
            found, timeline = simulate_point(one, partial(progress.advance, bar))
            folder = run_folder.create(out / found[0].folder)
            write_chrome_trace(folder / "trace.json.gz", timeline)
            steps += found
    facts = dict(ready[0].asked.facts)
    facts["batch"] = batch_of(spec, grid)
    facts["spec"] = ready[0].asked.facts_of[ready[0].asked.cases[0].name]["spec"]
    about: dict[str, Any] = {
        "cluster": there.name,
        "cluster_title": there.title,
        "cluster_source": there.source,
    }
    _answer(grid, steps, decoded(facts, Work), out, output, **about)
    return 0


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
        grid, cells_of(grid, cells, cores), work, here(), run=str(out), cores=cores, **about
    )
    with writing(out):
        run_folder.write_record(out, scale_json(run))
        write_scale(out / "report.html", run)
    if output.json:
        say(json.dumps(scale_json(run)))
        return
    text = output.rendered(lambda console: print_scale(console, run))
    say(f"{text}\n\nreport: {out / 'report.html'}")
