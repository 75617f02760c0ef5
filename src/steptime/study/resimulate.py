"""What was measured here, simulated on a cluster: the same steps with the same compute."""

from typing import Any

from steptime.cluster import Cluster
from steptime.program import Program
from steptime.strategies import Strategy, strategy_named
from steptime.strategies.calls import not_simulated
from steptime.study.cases import Asked, runs_on
from steptime.study.comparison import Comparison
from steptime.study.simulate import Study
from steptime.train.config import GPT2Config, name_of
from steptime.train.figures import StrategyFigures
from steptime.train.options import JobOptions
from steptime.workloads.data_parallel import data_parallel
from steptime.workloads.models import Transformer
from steptime.workloads.presets import Case


def asked_of_comparison(
    comparison: Comparison, options: JobOptions, config: GPT2Config, cluster: Cluster
) -> Asked:
    """The steps that were measured, each with the compute and update that its strategy took here.

    Strategies that cannot run on the cluster, or not be simulated, are left out.
    """
    return Asked(
        cluster=cluster,
        cases=[
            measured_case(name, figures, options, config)
            for name, figures in comparison.strategies.items()
            if can_be_resimulated(strategy_named(name), cluster)
        ],
        facts={},
        tokens=options.train.batch * options.model.row(config),
    )


def can_be_resimulated(strategy: Strategy, cluster: Cluster) -> bool:
    """Whether the steps of a strategy can be simulated on a cluster."""
    return runs_on(strategy, cluster) and not not_simulated(strategy)


def measured_case(
    name: str, figures: StrategyFigures, options: JobOptions, config: GPT2Config
) -> Case:
    """The step under a strategy with the compute and update that were measured of it."""
    program = training_program(
        name,
        options,
        config,
        ranks=len(figures.ranks),
        compute_s=figures.compute_s,
        # Where one rank updates for all, the others took no time for it.
        update_s=max(rank.update_s for rank in figures.ranks),
    )
    return Case(name=name, summary=figures.summary, program=program, algorithms={})


def training_program(
    strategy: str,
    options: JobOptions,
    config: GPT2Config,
    *,
    ranks: int,
    compute_s: float,
    update_s: float,
) -> Program:
    """The step of a live training under a strategy, with the times that it took there."""
    model = Transformer(
        name=name_of(config),
        layers=config.layers,
        hidden=config.embd,
        heads=config.heads,
        vocabulary=config.vocabulary,
        context=config.context,
    )
    return data_parallel(
        model,
        strategy,
        ranks=ranks,
        batch=options.train.batch,
        context=options.model.row(config),
        accumulate=options.train.accumulate,
        dtype=options.precision,
        reduce_dtype=options.train.reduce_dtype,
        bucket_bytes=options.train.bucket,
        clip=options.train.clip > 0,
        compute_s=compute_s,
        update_s=update_s,
    )


def elsewhere_record(study: Study) -> dict[str, Any]:
    """What run.json holds of it."""
    best = study.simulations[study.comparison.winner]
    return {
        "source": "simulated",
        "cluster": study.cluster.name,
        "cluster_title": study.cluster.title,
        "fidelity": best.fidelity,
        "winner": study.comparison.winner,
        "strategies": study.comparison.entries(),
    }
