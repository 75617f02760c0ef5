"""What a training is asked for, as the specification of its step that ``simulate`` takes too."""

from steptime.errors import UsageError
from steptime.host_memory import available_bytes
from steptime.train.options import JobOptions
from steptime.units import format_bytes
from steptime.workloads.hybrid import Hybrid
from steptime.workloads.models import Transformer
from steptime.workloads.precision import element_dtype
from steptime.workloads.resolve import resolved
from steptime.workloads.spec import StepSpec
from steptime.workloads.step import hybrid_of

_LEAST_BYTES = 4  # of a parameter: weight and gradient in the narrowest dtypes

STRATEGY = "overlapped_sharded"
"""How gradients are synchronised where nothing is said."""


def training_spec(
    strategy: str | None, options: JobOptions, model: Transformer, *, ranks: int
) -> StepSpec:
    """The step of a training under a strategy, with every default filled in.

    Raises UsageError where its parts do not fit together, as ``resolved`` does.
    """
    shared, train = options.parallel, options.train
    spec = StepSpec(
        model=model.name,
        ranks=ranks,
        tensor=_asked(shared.tensor),
        pipeline=_asked(shared.pipeline),
        context=_asked(shared.context),
        expert=_asked(shared.expert),
        sequence_parallel=shared.sequence_parallel,
        schedule=shared.schedule,
        interleave=shared.interleave,
        recompute=shared.recompute,
        batch=train.batch,
        micro_batches=_micro_batches(options),
        tokens=options.model.row(model),
        precision=element_dtype(options.precision),
        reduce_dtype=train.reduce_dtype,
        strategy=strategy or (None if shared.zero is not None else STRATEGY),
        zero=shared.zero,
        bucket=train.bucket,
    )
    return resolved(spec, model)


def shared_step(
    strategy: str | None, options: JobOptions, model: Transformer, *, ranks: int
) -> Hybrid | None:
    """The step of a training whose ranks share the model; None where they are replicas alone.

    Raises UsageError where the ranks do not divide the model or its rows so.
    """
    spec = training_spec(strategy, options, model, ranks=ranks)
    if not spec.shares and (spec.zero or 0) < 2:
        return None
    return hybrid_of(spec, model, clip=needs_norm(options))


def check_room(model: Transformer, options: JobOptions, backend: str) -> None:
    """Raise UsageError where not even one rank's weights and gradients fit into this host's memory.

    What a GPU holds is not known before ranks start.
    """
    if backend == "nccl":
        return
    shared = options.parallel.tensor * options.parallel.pipeline * options.parallel.expert
    needed = _LEAST_BYTES * model.padded().parameters // shared
    if needed > (free := available_bytes()):
        raise UsageError(
            f"{model.name} takes {format_bytes(needed)} for the weights and gradients of a rank "
            f"alone, and {format_bytes(free)} of memory are free here: choose a smaller model"
        )


def needs_norm(options: JobOptions) -> bool:
    """Whether steps compute the norm of the gradient: to clip it, or to see that fp16 overflows."""
    return options.train.clip > 0 or "fp16" in (options.precision, options.train.reduce_dtype)


def _asked(size: int) -> int | None:
    return size if size > 1 else None


def _micro_batches(options: JobOptions) -> int | None:
    """As many as were asked for; None leaves it to the defaults of a shared step."""
    if options.parallel.micro_batches is not None:
        return options.parallel.micro_batches
    return (
        None
        if options.parallel.shares and options.train.accumulate == 1
        else options.train.accumulate
    )
