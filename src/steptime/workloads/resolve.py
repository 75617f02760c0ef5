"""A StepSpec with every default filled in, and checked: what is asked for made certain."""

from dataclasses import replace

from steptime.cluster import Cluster
from steptime.errors import UsageError
from steptime.strategies import Strategy, strategy_named
from steptime.units import Size
from steptime.workloads.mesh import Mesh
from steptime.workloads.models import (
    Model,
    Transformer,
    model_by_dimensions,
    with_dimensions,
)
from steptime.workloads.pipelines import schedule_named
from steptime.workloads.sizes import DIMENSIONS
from steptime.workloads.spec import Precision, StepSpec
from steptime.workloads.steps import DEFAULT_STRATEGY, has_own_step
from steptime.workloads.sync import strategies_of_zero, strategy_of_zero

_BUCKET = Size("25MiB")
_ROWS = 8  # of a micro-batch in plain data parallelism
_MICRO_BATCHES_A_STAGE = 4  # where ranks share a model and nothing says the batch
_NEAREST = ("bf16", "fp16", "fp32")  # what is trained in, where a device lacks what is asked for
_STAGES_OF_ZERO = range(4)
_UNREAD_BY_ITS_OWN_STEP = (
    *DIMENSIONS,
    *("tokens", "bucket", "sequence_parallel", "recompute"),
    *("schedule", "interleave"),
)


def model_of(spec: StepSpec, given: Model | None = None) -> Model:
    """The model that is given or named, with the dimensions asked for.

    Raises UsageError where there is none, or these do not fit it.
    """
    if given is not None:
        return with_dimensions(given, spec.sizes)
    return model_by_dimensions(spec.model, spec.sizes, spec.tokens)


def mesh_of(spec: StepSpec) -> Mesh:
    """The ranks along each axis, 1 where nothing is said."""
    return Mesh(
        tensor=spec.tensor or 1,
        context=spec.context or 1,
        expert=spec.expert or 1,
        data=spec.data or 1,
        pipeline=spec.pipeline or 1,
    )


def resolved(spec: StepSpec, model: Model, cluster: Cluster | None = None) -> StepSpec:
    """The specification of a step of ``model`` with every default filled in.

    On a cluster there are as many ranks as it has places for, unless something says how many, and
    in bf16 where its devices have that; without one there is one replica, in bf16.

    Raises UsageError where its parts clash, an option is given that this step does not read, the
    cluster has no place for the ranks or its devices have no rate for the precision.
    """
    own = has_own_step(model, shared=spec.shares)
    strategy = strategy_of_zero(spec.zero, spec.strategy)
    _check_read(spec, model.name if own else "")
    mesh = _mesh(spec, cluster)
    plain = own or not spec.asks_to_share
    batch, micro_batches, rows = _batch(spec, mesh, plain=plain)
    strategy = (DEFAULT_STRATEGY if own else "replicated") if strategy is None else strategy
    _check_strategy(strategy, cluster)
    if spec.precision == "fp8" and not isinstance(model, Transformer):
        raise UsageError(
            f"fp8 is for the matrix products of transformers, and {model.name} is {model.title}: "
            "choose --precision bf16"
        )
    row = model.row(spec.tokens)
    layers = model.layers if isinstance(model, Transformer) else None
    piped = mesh.pipeline > 1
    schedule = spec.schedule or "1f1b"
    chunks = spec.interleave or (schedule_named(schedule).fewest_chunks if piped else 1)
    return replace(
        spec,
        model=model.name,
        ranks=mesh.ranks,
        layers=layers,
        data=mesh.data,
        tensor=mesh.tensor,
        pipeline=mesh.pipeline,
        expert=mesh.expert,
        context=mesh.context,
        batch=batch,
        micro_batches=micro_batches,
        rows=rows,
        tokens=row if layers else None,
        precision=_precision(spec, cluster),
        reduce_dtype=spec.reduce_dtype or "fp32",
        strategy=strategy,
        zero=next((n for n in _STAGES_OF_ZERO if strategy in strategies_of_zero(n)), None),
        bucket=None if own else spec.bucket or _BUCKET,
        schedule=schedule if piped else None,
        interleave=chunks if piped else None,
    )


def _check_read(spec: StepSpec, own: str) -> None:
    """Raise UsageError for an option that nothing would read; ``own``: a model so shared."""
    given = spec.given()
    for name in _UNREAD_BY_ITS_OWN_STEP if own else ():
        if name in given:
            raise UsageError(
                f"--{name.replace('_', '-')} is not for {own}, which ranks share in a way of "
                "its own: leave it out"
            )
    for name in ("schedule", "interleave"):
        if name in given and (spec.pipeline or 1) == 1:
            raise UsageError(f"--{name} is about a pipeline: give --pipeline 2 or more too")
    if spec.sequence_parallel and (spec.tensor or 1) == 1:
        raise UsageError(
            "--sequence-parallel is about tensor parallelism: give --tensor 2 or more too"
        )


def runs_on(strategy: Strategy, cluster: Cluster) -> bool:
    """Whether the devices of a cluster have what a strategy needs.

    Only devices on a bus, as the ranks of a CPU's host are, have memory that all of them see.
    """
    inside = cluster.inside
    shares_memory = cluster.hosts == 1 and inside is not None and inside.kind == "bus"
    return shares_memory or not strategy.in_shared_memory


def _check_strategy(name: str, cluster: Cluster | None) -> None:
    """Raise UsageError where there is no such strategy, or it cannot run on the cluster."""
    strategy = strategy_named(name)
    if cluster is not None and not runs_on(strategy, cluster):
        raise UsageError(
            f"the strategy {name} keeps parameters in memory that ranks share, and the devices "
            f"of {cluster.name} share none: choose another"
        )


def _mesh(spec: StepSpec, cluster: Cluster | None) -> Mesh:
    """The ranks along each axis, as many replicas as fit where nothing says how many."""
    one = replace(mesh_of(spec), data=1)
    asked = one.ranks * (spec.data or 1)
    ranks = spec.ranks or (asked if spec.data or cluster is None else cluster.order.size)
    if cluster is not None:
        cluster.placed(max(ranks, asked))
    return one.replicated(ranks, spec.data)


def _batch(spec: StepSpec, mesh: Mesh, *, plain: bool) -> tuple[int, int, int]:
    """Rows of the global batch, micro-batches of each replica, and rows of one of these.

    Raises UsageError where the batch is not the product of both and of the replicas.
    """
    replicas, batch = mesh.replicas, spec.batch
    rows = spec.rows or (_ROWS if plain else 1)
    micro_batches = spec.micro_batches or (1 if plain else _MICRO_BATCHES_A_STAGE * mesh.pipeline)
    if batch is None:
        return replicas * micro_batches * rows, micro_batches, rows
    if spec.micro_batches is None and (spec.rows or not plain):
        micro_batches = max(1, batch // (replicas * rows))
    step = replicas * micro_batches * (spec.rows or 1)
    if batch % step or (spec.rows and batch != step):
        fixed = spec.micro_batches and spec.rows
        nearest = step if fixed else max(step, round(batch / step) * step)
        of = f" of {spec.rows} rows" if spec.rows else ""
        raise UsageError(
            f"--batch {batch} does not divide among {replicas} replicas of {micro_batches} "
            f"micro-batch{'es' * (micro_batches > 1)}{of} each; the nearest that does is {nearest}"
        )
    return batch, micro_batches, batch // (replicas * micro_batches)


def _precision(spec: StepSpec, cluster: Cluster | None) -> Precision:
    if cluster is None:
        return spec.precision or "bf16"
    rates = cluster.device.flops
    precision: Precision = spec.precision or ("bf16" if "bf16" in rates else "fp32")
    if precision not in rates:
        nearest = next((one for one in _NEAREST if one in rates), "")
        choose = f"the nearest is --precision {nearest}; " if nearest else ""
        raise UsageError(
            f"the devices of {cluster.name} have no rate for {precision}, but for "
            f"{', '.join(rates)}: {choose}or add it to the cluster's file".replace("; or", ", or")
        )
    return precision
