"""What was measured here, simulated on a cluster: the same steps with the same compute."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from steptime.cluster import Cluster
from steptime.program import Compute, Program
from steptime.runs.figures import StepFigures
from steptime.strategies import Strategy, strategy_named
from steptime.strategies.calls import not_simulated
from steptime.study.cases import Asked
from steptime.timeline import Phase
from steptime.train.asked import needs_norm, training_spec
from steptime.train.options import JobOptions
from steptime.workloads.models import Transformer
from steptime.workloads.presets import Case
from steptime.workloads.resolve import runs_on
from steptime.workloads.step import Measured, Step, step_of


def asked_of_comparison(
    measured: Mapping[str, StepFigures],
    options: JobOptions,
    config: Transformer,
    cluster: Cluster,
) -> Asked:
    """The steps that were measured, each with the compute and update that its strategy took here.

    Strategies that cannot run on the cluster, or not be simulated, are left out.
    """
    return Asked(
        cluster=cluster,
        cases=[
            measured_case(name, figures, options, config, on_cores=cluster.cores > 0)
            for name, figures in measured.items()
            if can_be_resimulated(strategy_named(name), cluster)
        ],
        facts={},
        tokens=options.train.batch * options.model.row(config),
    )


def can_be_resimulated(strategy: Strategy, cluster: Cluster) -> bool:
    """Whether the steps of a strategy can be simulated on a cluster."""
    return runs_on(strategy, cluster) and not not_simulated(strategy)


def measured_case(
    name: str,
    figures: StepFigures,
    options: JobOptions,
    config: Transformer,
    *,
    on_cores: bool = False,
) -> Case:
    """The step under a strategy with the compute and update that were measured of it.

    ``on_cores``: what they needed of a core, where that was measured; else what they took by the
    clock, which is more where ranks share cores.
    """
    # Where one rank updates for all, the others took no time for it.
    update_s = max(rank.update_s for rank in figures.ranks)
    measured = Measured(compute_s=figures.compute_s, update_s=update_s)
    step = training_step(name, options, config, ranks=len(figures.ranks), measured=measured)
    program = step.program
    core_s = np.array([(r.compute_core_s, r.update_core_s) for r in figures.ranks], np.float64)
    if on_cores and not np.isnan(core_s).any():
        program = replace(_with_measured(program, core_s), on_cores=True)
    elif step.spec.shares or (step.spec.zero or 0) > 1:
        took = np.array([(rank.compute_s, rank.update_s) for rank in figures.ranks])
        program = _with_measured(program, took)
    return Case(name=name, summary=figures.summary, program=program, algorithms={})


def _with_measured(program: Program, of_ranks: NDArray[np.float64]) -> Program:
    """A program whose computing takes what ranks took that do the same, shared out by its work.

    ``of_ranks``: compute and update of each rank, seconds, shape (ranks, 2).
    """
    lists = []
    for number, ops in enumerate(program.lists):
        compute_s, update_s = of_ranks[program.class_of == number].mean(axis=0).tolist()
        computing = [op for op in ops if isinstance(op, Compute)]
        took = {Phase.COMPUTE: compute_s, Phase.UPDATE: update_s}
        total = dict.fromkeys(took, 0.0)
        for op in computing:
            total[op.phase] += _work(op)
        lists.append(
            tuple(
                replace(op, seconds=took[op.phase] * _work(op) / total[op.phase], kernels=())
                if isinstance(op, Compute)
                else op
                for op in ops
            )
        )
    return replace(program, lists=tuple(lists))


def _work(op: Compute) -> float:
    """What the time of computing is shared out by: FLOP, or the bytes of an update."""
    return float(op.flops if op.phase is Phase.COMPUTE else op.nbytes) or 1.0


def training_step(
    strategy: str,
    options: JobOptions,
    config: Transformer,
    *,
    ranks: int,
    measured: Measured | None = None,
) -> Step:
    """The step of a live training under a strategy, with the times that it took there.

    Raises UsageError where the strategy cannot be simulated.
    """
    spec = training_spec(strategy, options, config, ranks=ranks)
    return step_of(spec, model=config, clip=needs_norm(options), measured=measured)
