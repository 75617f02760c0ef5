"""From a StepSpec to its step: the one way from what is asked for to a Program."""

from dataclasses import dataclass
from typing import Any

from steptime.cluster import Cluster
from steptime.limits import check_within
from steptime.program import Program
from steptime.workloads.data_parallel import data_parallel
from steptime.workloads.hybrid import Hybrid
from steptime.workloads.model_memory import Memory, memory_of_replica
from steptime.workloads.models import Model, transformer_of
from steptime.workloads.precision import element_dtype
from steptime.workloads.resolve import mesh_of, model_of, resolved
from steptime.workloads.spec import StepSpec
from steptime.workloads.steps import has_own_step, own_step

_MOST_PASSES = 1 << 18
"""Forward passes of a step, of all layers and micro-batches: some millions of ops."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step as it was ``asked`` for, and what it comes to.

    ``spec``: the same with every default filled in. ``title``: the model and, where ranks share it,
    how many do along each axis. ``memory``: what a rank of each class keeps of the model.
    """

    asked: StepSpec
    spec: StepSpec
    model: Model
    title: str
    program: Program
    memory: tuple[Memory, ...]

    @property
    def tokens(self) -> int | None:
        """Tokens that it trains on; None of a model that reads none."""
        batch, row = self.spec.batch, self.spec.tokens
        return batch * row if batch and row else None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a step of plain data parallelism took where it ran, in seconds of its busiest rank."""

    compute_s: float
    update_s: float


def step_of(
    spec: StepSpec,
    cluster: Cluster | None = None,
    *,
    model: Model | None = None,
    clip: bool = True,
    measured: Measured | None = None,
) -> Step:
    """The step that was asked for, on a cluster if one is given.

    ``model``: the model itself, where it goes by no name. ``clip``: whether the norm of the whole
    gradient is computed. ``measured``: what computing takes, where that is known.

    Raises UsageError for whatever does not fit: as ``resolved`` does, and where the layers, heads
    or experts do not divide among the ranks or the strategy does not serve them.
    """
    model = model or model_of(spec)
    full = resolved(spec, model, cluster)
    passes = (full.layers or 1) * (full.micro_batches or 1)
    check_within("the number of layers times that of micro-batches", passes, 1, _MOST_PASSES)
    if has_own_step(model, shared=full.shares):
        program, memory = _own(full, model)
        title = program.name
    elif full.shares:
        hybrid = hybrid_of(full, model, clip=clip)
        program, memory = hybrid.program, hybrid.memory
        title = f"{model.name}, {mesh_of(full)}"
    else:
        program = _replicated(full, model, clip=clip, measured=measured)
        memory, title = _replica_memory(full, model), model.name
    return Step(asked=spec, spec=full, model=model, title=title, program=program, memory=memory)


def memory_of_step(spec: StepSpec, model: Model) -> tuple[Memory, ...]:
    """The ``memory`` of the step that was asked for, without its program; raises as ``step_of``."""
    full = resolved(spec, model)
    if has_own_step(model, shared=full.shares):
        return _own(full, model)[1]
    return hybrid_of(full, model).memory if full.shares else _replica_memory(full, model)


def _how(full: StepSpec) -> dict[str, Any]:
    """What every generator is told by the same name."""
    return {
        "dtype": element_dtype(str(full.precision)),
        "reduce_dtype": full.reduce_dtype,
        "strategy": full.strategy,
    }


def _own(full: StepSpec, model: Model) -> tuple[Program, tuple[Memory, ...]]:
    mesh = mesh_of(full)
    return own_step(
        model, mesh, batch=full.batch or 1, accumulate=full.micro_batches or 1, **_how(full)
    )


def hybrid_of(
    full: StepSpec, model: Model, *, clip: bool = True, layers: tuple[int, ...] | None = None
) -> Hybrid:
    """The step of a transformer that ranks share, of a specification with its defaults filled in.

    ``layers``: of each piece of the pipeline, where these are no equal parts.

    Raises UsageError as ``Hybrid`` does.
    """
    return Hybrid(
        transformer_of(model),
        mesh=mesh_of(full),
        micro_batches=full.micro_batches or 1,
        rows=full.rows or 1,
        tokens=full.tokens,
        bucket_bytes=full.bucket or 1,
        schedule=full.schedule or "1f1b",
        interleave=full.interleave or 1,
        sequence_parallel=full.sequence_parallel,
        recompute=full.recompute,
        clip=clip,
        layers=layers,
        products=full.precision,
        **_how(full),
    )


def _replicated(full: StepSpec, model: Model, *, clip: bool, measured: Measured | None) -> Program:
    return data_parallel(
        model,
        ranks=full.ranks or 1,
        batch=full.batch or 1,
        context=full.tokens,
        accumulate=full.micro_batches or 1,
        bucket_bytes=full.bucket or 1,
        clip=clip,
        compute_s=measured.compute_s if measured else None,
        update_s=measured.update_s if measured else None,
        products=full.precision,
        **_how(full),
    )


def _replica_memory(full: StepSpec, model: Model) -> tuple[Memory, ...]:
    row = model.row(full.tokens)
    how = _how(full)
    return (memory_of_replica(model, ranks=full.ranks or 1, rows=full.rows or 1, row=row, **how),)
