"""The verb ``compare``: train under every gradient-sync strategy in turn."""

from typing import Annotated, Literal

from cyclopts import Parameter

from steptime.cli.options import Flat, OutputOptions, RankOptions
from steptime.cli.ranks import Place, on_ranks
from steptime.train.data import check_data
from steptime.train.options import DataOptions, DtypeName, JobOptions, ModelOptions, TrainOptions
from steptime.train.strategies import check_backend, strategies, strategy_named
from steptime.train.strategy import Strategy


def compare(
    family: Annotated[Literal["gpt2"], Parameter(name="MODEL")] = "gpt2",  # noqa: ARG001
    /,
    *,
    model: Flat[ModelOptions] = ModelOptions(),
    data: Flat[DataOptions] = DataOptions(),
    train: Flat[TrainOptions] = TrainOptions(),
    ranks: Flat[RankOptions] = RankOptions(),
    output: Flat[OutputOptions] = OutputOptions(),
    names: Annotated[str, Parameter(name="--strategies")] = "all",
    steps: int = 20,
    warmup: int = 3,
    precision: DtypeName = "fp32",
    compiled: Annotated[bool, Parameter(name="--compile")] = False,
    seed: int = 0,
) -> int:
    """Which gradient-sync strategy is fastest here, and where does the step go?

    Parameters
    ----------
    family
        What is trained.
    names
        Strategies to run, with commas between them; all are those that can run on these ranks.
    steps
        Timed steps of each strategy.
    warmup
        Steps before them that are not timed.
    precision
        The dtype of the computation; weights and optimizer state stay in fp32.
    compiled
        Compile the model's blocks with torch.compile; on a CPU that needs a C++ compiler.
    seed
        Makes the initial weights and the order of the data.

    """
    asked = [] if names == "all" else [strategy_named(n) for n in dict.fromkeys(names.split(","))]
    options = JobOptions(
        model=model,
        data=data,
        train=train,
        precision=precision,
        compiled=compiled,
        steps=warmup + steps,
        warmup=warmup,
        seed=seed,
    )

    def check(size: int) -> None:
        for strategy in asked:
            check_backend(strategy, ranks.backend)
        train.rows_per_micro_batch(size)
        context = model.row(model.config(vocabulary=1))
        check_data(data, context=context, batch=train.batch, ranks=size)

    def work(place: Place) -> None:
        _compare(options, asked or _possible(place, ranks), place, ranks, output)

    return on_ranks("compare", ranks, output, 4, check, work)


def _possible(place: Place, ranks: RankOptions) -> list[Strategy]:
    """All strategies that can run on these ranks."""
    shares_memory = place.world.one_host and ranks.backend != "nccl"
    return [s for s in strategies().values() if shares_memory or not s.in_shared_memory]


def _compare(
    options: JobOptions,
    chosen: list[Strategy],
    place: Place,
    ranks: RankOptions,
    output: OutputOptions,
) -> None:
    from steptime.cli.answer import answer
    from steptime.study import compare as study
    from steptime.study.record import training_record
    from steptime.train.job import prepare_job
    from steptime.train.loop import StepOutcome

    job = prepare_job(options, on_gpu=ranks.backend == "nccl")
    with output.progress(place.world.rank) as progress:
        bars = {
            strategy.name: progress.add_task(strategy.name, total=options.steps, start=False)
            for strategy in chosen
        }

        def advance(strategy: Strategy, outcome: StepOutcome) -> None:
            progress.update(bars[strategy.name], completed=outcome.step + 1)

        comparison = study.compare(job, chosen, advance)
    if comparison:
        answer(
            training_record("compare", comparison, job),
            comparison.timeline,
            place,
            ranks,
            output,
        )
