"""``scale``: How well does a step scale, and what holds it back?"""

import os
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from steptime.cli.options import Flat, OutputOptions, RankOptions
from steptime.cli.printing import say, say_json, writing
from steptime.cli.ranks import Place, check_torch, on_ranks
from steptime.errors import UsageError
from steptime.points.options import SweepOptions
from steptime.runs import run_folder
from steptime.study.scale_options import LiveOptions, refuse_live_options, refuse_sweep_options
from steptime.train.options import DataOptions, JobOptions
from steptime.workloads.spec import StepSpec
from steptime.world import World, detect

if TYPE_CHECKING:
    from steptime.api.scaling import Scaling
    from steptime.cluster import Cluster
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
    from steptime.api.scaling import grid_of, with_model
    from steptime.cluster.files import cluster_named
    from steptime.study.scale_options import asked_kind, live_job

    kind = asked_kind(strong=strong, weak=weak, simulated=cluster is not None)
    there = None if cluster is None else cluster_named(cluster)
    asked = (ranks, live.threads, names, kind, baseline, there, live.backend)
    grid, step = grid_of(replace(step, model=name or ""), *asked)
    if there is not None:
        refuse_live_options(replace(live, threads="1"), replace(data, vocabulary=None))
        spec = with_model(replace(step, vocabulary=data.vocabulary))
        return _on_cluster(grid, spec, there, sweep, output)
    refuse_sweep_options(sweep)
    options = live_job(step, data, live)
    of_ranks = RankOptions(backend=live.backend, timeout=live.timeout)
    if world := detect(os.environ):
        return _one_point(world, grid, options, of_ranks, output)
    return _here(grid, options, of_ranks, output)


def _here(grid: "Grid", options: JobOptions, ranks: RankOptions, output: OutputOptions) -> int:
    """Start the ranks of one point after the other, then read back what they left."""
    check_torch("scale", ranks.backend)
    from steptime.api.scaling import Scaling
    from steptime.api.scaling_here import check_here, in_turns, read_at, scaled

    check_here(grid, options, ranks.backend)
    with run_folder.created(_folder(output)) as out:
        config = options.model.config(vocabulary=1)
        if not (output.quiet or output.json):
            say(f"{config.name}: {config.layers} layers of width {config.hidden}")
        program = ["-m", "steptime", *sys.argv[1:]]
        if output.out is None:
            program += ["--out", str(out)]
        turns = in_turns(grid, options, ranks.backend)
        if code := _start(program, grid, in_turns=turns):
            return code
        runs = {point: read_at(out, point) for point in grid.points}
        record = scaled(grid, options, ranks.backend, runs, turns=turns)
        _answer(Scaling(record, {}), out, output)
    return 0


def _start(program: list[str], grid: "Grid", *, in_turns: bool) -> int:
    """Run the ranks of all points, together in turns or one point after the other."""
    from steptime.api.scaling_here import baton_of
    from steptime.launch import run_ranks, run_worlds

    if not in_turns:
        codes = (run_ranks(program, point.ranks, point.threads) for point in grid.points)
        return next((code for code in codes if code), 0)
    worlds = [(point.ranks, point.threads) for point in grid.points]
    with baton_of(grid) as variables:
        return run_worlds(program, worlds, {**os.environ, **variables})


def _folder(output: OutputOptions) -> Path:
    return output.out or run_folder.default_path("scale", datetime.now())


def _one_point(
    world: World, grid: "Grid", options: JobOptions, ranks: RankOptions, output: OutputOptions
) -> int:
    """Be one rank of a point, as the process that started it asked."""
    from steptime.api.scaling_here import own_point

    if world.launcher != "steptime":
        raise UsageError(
            "scale starts the ranks of each cell by itself: run it without a launcher, or run "
            "compare under the launcher once for each number of ranks"
        )
    point = own_point()

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
    from steptime.api.scaling_here import run_at, write_point
    from steptime.cli.answer import record_place
    from steptime.world.baton import BATON

    shown = point == grid.points[0] or BATON not in os.environ
    with output.progress(place.world.rank if shown else 1) as progress:
        bars = {
            name: progress.add_task(f"{point} {name}", total=options.steps, start=False)
            for name in grid.strategies_at(point)
        }
        where = record_place(place, ranks)
        advance = lambda one: progress.update(bars[one.name], advance=1)  # noqa: E731
        run = run_at(point, grid, options, where, advance)
    if run is not None:
        with writing(place.out):
            write_point(place.out, point, run)


def _on_cluster(
    grid: "Grid", spec: StepSpec, cluster: "Cluster", sweep: SweepOptions, output: OutputOptions
) -> int:
    """Simulate every point on a cluster."""
    from steptime.api.scaling import there
    from steptime.points.mpi import refuse_copies

    world = detect(os.environ)
    refuse_copies(world.size if world else 1, "scale")
    with run_folder.created(_folder(output)) as out:
        with sweep.executor() as executor, output.tracking() as track:
            study = there(grid, spec, cluster, executor, sweep.kept(), track)
        if study.kept and not (output.quiet or output.json):
            points = f"{study.kept} of {len(grid.points)} points"
            print(f"{points} are those that {sweep.cache} keeps", file=sys.stderr)
        _answer(study, out, output)
    return 0


def _answer(study: "Scaling", out: Path, output: OutputOptions) -> None:
    """Write the study's folder, then print the answer."""
    from steptime.runs.scale import scale_json

    with writing(out):
        study = study.written_to(out)
    if output.json:
        say_json(scale_json(study.record))
        return
    say(f"{output.rendered(study.print)}\n\nreport: {out / 'report.html'}")
