"""``compare``: Which gradient-sync strategy is fastest here, and where does the step go?"""

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from steptime.cli.options import Flat, OutputOptions, RankOptions
from steptime.cli.printing import folded, say
from steptime.cli.ranks import Place, on_ranks
from steptime.errors import UsageError
from steptime.train.options import DataOptions, JobOptions, ModelOptions, TrainOptions
from steptime.train.parallel.options import ParallelOptions
from steptime.turns import TurnOptions
from steptime.workloads.precision import PrecisionName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from steptime.cluster import Cluster
    from steptime.runs.figures import StepFigures
    from steptime.runs.record import Elsewhere
    from steptime.strategies import Strategy
    from steptime.train.job import Job


@dataclass(frozen=True, kw_only=True)
class TimedOptions:
    """Which steps are timed, and how they are computed."""

    steps: int = 20
    """Timed steps of each strategy; with --see as many in ten turns, and those go on."""

    warmup: int = 3
    """Steps before them that are not timed."""

    precision: PrecisionName = "fp32"
    """The dtype of the computation; weights and optimizer state stay in fp32, but with bf16-params.
    fp8-emulated is bf16 with the inputs of the blocks' products rounded to fp8."""

    compiled: Annotated[bool, Parameter(name="--compile")] = False
    """Compile the model's blocks with torch.compile; on a CPU that needs a C++ compiler."""

    seed: int = 0
    """Makes the initial weights and the order of the data."""


def compare(
    name: Annotated[str | None, Parameter(name="MODEL")] = None,
    /,
    *,
    model: Flat[ModelOptions] = ModelOptions(),
    data: Flat[DataOptions] = DataOptions(),
    train: Flat[TrainOptions] = TrainOptions(),
    parallel: Flat[ParallelOptions] = ParallelOptions(),
    ranks: Flat[RankOptions] = RankOptions(),
    output: Flat[OutputOptions] = OutputOptions(),
    names: Annotated[str, Parameter(name="--strategies")] = "all",
    cluster: str | None = None,
    how: Flat[TimedOptions] = TimedOptions(),
    turns: Flat[TurnOptions] = TurnOptions(),
) -> int:
    """Which gradient-sync strategy is fastest here, and where does the step go?

    Parameters
    ----------
    name
        What is trained: a GPT-2 or a Llama, as gpt2-124M or its file; default: gpt2-nano.
    names
        Strategies to run, with commas between them, or FILE.py with one of your own, which is run;
        all are those that can run on these ranks.
    cluster
        Simulate the same steps on this cluster too, a file or a name that `steptime cluster list`
        shows, with the compute measured here; what both say stands side by side.

    """
    from steptime.api.comparing import check_comparison, chosen_strategies

    if parallel.zero is not None:
        raise UsageError(
            "--zero is one strategy, and compare takes several: name them with --strategies"
        )
    asked = chosen_strategies(names)
    options = JobOptions(
        model=replace(model, name=name),
        data=data,
        train=train,
        parallel=parallel,
        precision=how.precision,
        compiled=how.compiled,
        steps=how.warmup + how.steps,
        warmup=how.warmup,
        seed=how.seed,
    )

    def check(size: int) -> None:
        check_comparison(options, turns, asked, ranks.backend, size)
        if cluster is not None:
            _check_cluster(cluster, asked, size)

    work = partial(_compare, options, turns, asked, cluster, ranks, output)
    return on_ranks("compare", ranks, output, 4, check, work)


def _check_cluster(name: str, asked: list["Strategy"], size: int) -> None:
    """Raise UsageError where a cluster cannot hold so many ranks, or run any strategy asked for."""
    from steptime.cluster.files import cluster_named
    from steptime.strategies.calls import not_simulated
    from steptime.workloads.resolve import runs_on

    cluster = cluster_named(name)
    cluster.placed(size)
    possible = [strategy for strategy in asked if not not_simulated(strategy)]
    if asked and not possible:
        raise UsageError(
            f"{asked[0].name} cannot be simulated: {not_simulated(asked[0])}; leave --cluster out "
            "or name another strategy"
        )
    if asked and not any(runs_on(strategy, cluster) for strategy in possible):
        raise UsageError(
            f"the ranks of {cluster.name} have no memory in common, and {asked[0].name} needs it: "
            "leave --cluster out or name another strategy"
        )


def _compare(
    options: JobOptions,
    turns: TurnOptions,
    asked: list["Strategy"],
    cluster: str | None,
    ranks: RankOptions,
    output: OutputOptions,
    place: Place,
) -> None:
    from steptime.api.comparing import compared, possible, strategies_of
    from steptime.cli.answer import record_place, write_answer
    from steptime.cluster.files import cluster_named
    from steptime.train.job import prepare_job

    able = possible(ranks.backend, one_host=place.world.one_host)
    chosen = asked or strategies_of(options, able)
    job = prepare_job(options, on_gpu=ranks.backend == "nccl")
    if place.world.rank == 0 and not (output.quiet or output.json):
        line = f"{job.title}, ranks: {place.world.size}, {options.precision}"
        say(folded(line, output.console().width))
    with output.progress(place.world.rank) as progress:
        bars = {
            one.name: progress.add_task(one.name, total=options.steps, start=False)
            for one in chosen
        }

        def advance(strategy: "Strategy") -> None:
            progress.update(bars[strategy.name], advance=1)

        run = compared(job, chosen, turns, record_place(place, ranks), advance)
    if run:
        if cluster is not None:
            there = _simulated(run.strategies, job, cluster_named(cluster), output)
            run = replace(run, record=replace(run.record, simulated=there))
        write_answer(run, place.out, output)


def _simulated(
    measured: "Mapping[str, StepFigures]", job: "Job", cluster: "Cluster", output: OutputOptions
) -> "Elsewhere":
    """The same steps on a cluster."""
    from steptime.study.options import HowOptions
    from steptime.study.resimulate import asked_of_comparison
    from steptime.study.simulate import once_more, prepare_all, study

    asked = asked_of_comparison(measured, job.options, job.config, cluster)
    how = HowOptions()
    with output.progress(0) as progress:
        prepared = prepare_all(asked, cluster, how)
        bar = progress.add_task(f"on {cluster.name}", total=len(asked.cases))
        simulated = study(asked, cluster, how, prepared, lambda _: progress.advance(bar))
    return once_more(simulated)
