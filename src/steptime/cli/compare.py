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
from steptime.workloads.precision import DtypeName

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
    """Timed steps of each strategy."""

    warmup: int = 3
    """Steps before them that are not timed."""

    precision: DtypeName = "fp32"
    """The dtype of the computation; weights and optimizer state stay in fp32."""

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
    ranks: Flat[RankOptions] = RankOptions(),
    output: Flat[OutputOptions] = OutputOptions(),
    names: Annotated[str, Parameter(name="--strategies")] = "all",
    cluster: str | None = None,
    how: Flat[TimedOptions] = TimedOptions(),
) -> int:
    """Which gradient-sync strategy is fastest here, and where does the step go?

    Parameters
    ----------
    name
        What is trained: a GPT-2, as gpt2-124M or its file; default: gpt2-nano.
    names
        Strategies to run, with commas between them; all are those that can run on these ranks.
    cluster
        Simulate the same steps on this cluster too, a file or a name that `steptime cluster list`
        shows, with the compute measured here; what both say stands side by side.

    """
    from steptime.api.training import check_comparison, chosen_strategies

    asked = chosen_strategies(names)
    options = JobOptions(
        model=replace(model, name=name),
        data=data,
        train=train,
        precision=how.precision,
        compiled=how.compiled,
        steps=how.warmup + how.steps,
        warmup=how.warmup,
        seed=how.seed,
    )

    def check(size: int) -> None:
        check_comparison(options, asked, ranks.backend, size)
        if cluster is not None:
            _check_cluster(cluster, asked, size)

    work = partial(_compare, options, asked, cluster, ranks, output)
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
    asked: list["Strategy"],
    cluster: str | None,
    ranks: RankOptions,
    output: OutputOptions,
    place: Place,
) -> None:
    from steptime.api.training import compared, possible
    from steptime.cli.answer import leave, record_place
    from steptime.cluster.files import cluster_named
    from steptime.train.job import prepare_job
    from steptime.train.loop import StepOutcome

    chosen = asked or possible(ranks.backend, one_host=place.world.one_host)
    job = prepare_job(options, on_gpu=ranks.backend == "nccl")
    if place.world.rank == 0 and not (output.quiet or output.json):
        line = f"{job.title}, ranks: {place.world.size}, {options.precision}"
        say(folded(line, output.console().width))
    with output.progress(place.world.rank) as progress:
        bars = {
            strategy.name: progress.add_task(strategy.name, total=options.steps, start=False)
            for strategy in chosen
        }

        def advance(strategy: "Strategy", outcome: StepOutcome) -> None:
            progress.update(bars[strategy.name], completed=outcome.step + 1)

        run = compared(job, chosen, record_place(place, ranks), advance)
    if run:
        if cluster is not None:
            there = _simulated(run.strategies, job, cluster_named(cluster), output)
            run = replace(run, record=replace(run.record, simulated=there))
        leave(run, place.out, output)


def _simulated(
    measured: "Mapping[str, StepFigures]", job: "Job", cluster: "Cluster", output: OutputOptions
) -> "Elsewhere":
    """The same steps on a cluster."""
    from steptime.study.options import HowOptions
    from steptime.study.resimulate import asked_of_comparison
    from steptime.study.simulate import once_more, prepare_all, study

    asked = asked_of_comparison(measured, job.options, job.config, cluster)
    how = HowOptions()
    prepared = prepare_all(asked, cluster, how)
    with output.progress(0) as progress:
        bar = progress.add_task(f"on {cluster.name}", total=len(asked.cases))
        simulated = study(asked, cluster, how, prepared, lambda _: progress.advance(bar))
    return once_more(simulated)
