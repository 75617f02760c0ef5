"""What was measured here, simulated on a cluster: the same steps with the same compute."""

from collections.abc import Mapping

from steptime.cluster import Cluster
from steptime.runs.figures import StepFigures
from steptime.strategies import Strategy, strategy_named
from steptime.strategies.calls import not_simulated
from steptime.study.cases import Asked
from steptime.train.config import GPT2Config, name_of
from steptime.train.options import JobOptions
from steptime.workloads.models import Transformer
from steptime.workloads.presets import Case
from steptime.workloads.resolve import resolved, runs_on
from steptime.workloads.spec import StepSpec
from steptime.workloads.step import Measured, Step, step_of


def asked_of_comparison(
    measured: Mapping[str, StepFigures],
    options: JobOptions,
    config: GPT2Config,
    cluster: Cluster,
) -> Asked:
    """The steps that were measured, each with the compute and update that its strategy took here.

    Strategies that cannot run on the cluster, or not be simulated, are left out.
    """
    return Asked(
        cluster=cluster,
        cases=[
            measured_case(name, figures, options, config)
            for name, figures in measured.items()
            if can_be_resimulated(strategy_named(name), cluster)
        ],
        facts={},
        tokens=options.train.batch * options.model.row(config),
    )


def can_be_resimulated(strategy: Strategy, cluster: Cluster) -> bool:
    """Whether the steps of a strategy can be simulated on a cluster."""
    return runs_on(strategy, cluster) and not not_simulated(strategy)


def measured_case(name: str, figures: StepFigures, options: JobOptions, config: GPT2Config) -> Case:
    """The step under a strategy with the compute and update that were measured of it."""
    # Where one rank updates for all, the others took no time for it.
    update_s = max(rank.update_s for rank in figures.ranks)
    took = Measured(compute_s=figures.compute_s, update_s=update_s)
    step = training_step(name, options, config, ranks=len(figures.ranks), measured=took)
    return Case(name=name, summary=figures.summary, program=step.program, algorithms={})


def training_step(
    strategy: str,
    options: JobOptions,
    config: GPT2Config,
    *,
    ranks: int,
    measured: Measured | None = None,
) -> Step:
    """The step of a live training under a strategy, with the times that it took there.

    Raises UsageError where the strategy cannot be simulated.
    """
    spec = training_spec(strategy, options, config, ranks=ranks)
    clip = options.train.clip > 0
    return step_of(spec, model=_model(config), clip=clip, measured=measured)


def training_spec(
    strategy: str, options: JobOptions, config: GPT2Config, *, ranks: int
) -> StepSpec:
    """What a live training under a strategy was asked for, with every default filled in."""
    spec = StepSpec(
        model=name_of(config),
        ranks=ranks,
        batch=options.train.batch,
        micro_batches=options.train.accumulate,
        tokens=options.model.row(config),
        precision=options.precision,
        reduce_dtype=options.train.reduce_dtype,
        strategy=strategy,
        bucket=options.train.bucket,
    )
    return resolved(spec, _model(config))


def _model(config: GPT2Config) -> Transformer:
    return Transformer(
        name=name_of(config),
        layers=config.layers,
        hidden=config.embd,
        heads=config.heads,
        vocabulary=config.vocabulary,
        context=config.context,
    )
