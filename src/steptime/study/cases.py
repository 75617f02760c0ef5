"""The steps that a simulation is asked for: of a model, of a preset, or of a program's files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from steptime.cluster import Cluster
from steptime.errors import UsageError
from steptime.program import Program
from steptime.program.chakra import read_chakra
from steptime.replay.spread import memory_record, spread, spread_record
from steptime.strategies import Strategy, live_strategies, simulated_strategy
from steptime.strategies.calls import not_simulated
from steptime.study.options import WorkloadOptions
from steptime.workloads.data_parallel import data_parallel
from steptime.workloads.hybrid import Hybrid
from steptime.workloads.mesh import Mesh
from steptime.workloads.model_memory import Memory, memory_of_replica
from steptime.workloads.models import Model, Transformer, is_model_file, model_named, transformer_of
from steptime.workloads.presets import Case, Preset, Published
from steptime.workloads.steps import DEFAULT_STRATEGY, has_own_step, own_step
from steptime.workloads.sync import strategies_of_many_axes, strategy_of_zero

_ROWS_OF_A_RANK = 8
_MICRO_BATCHES_OF_A_STAGE = 4  # of a pipeline that was told no batch: its bubble is then a fifth
_BUCKET = 25 << 20  # as PyTorch's DDP


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Steps to simulate on a cluster.

    ``tokens`` that each trains on, None where nothing is known of them. ``facts``: what run.json
    says of them beside their figures, ``facts_of`` of a case by its name. ``published``: what was
    measured of a preset's.
    """

    cluster: Cluster
    cases: Sequence[Case]
    facts: Mapping[str, Any]
    facts_of: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    tokens: int | None = None
    published: Sequence[Published] = ()


def is_program(workload: str) -> bool:
    """Whether a workload is a program's files rather than a model, by its name or its file."""
    if is_model_file(workload):
        return False
    return "/" in workload or workload.endswith(".et") or Path(workload).is_dir()


def asked_of_program(path: Path, cluster: Cluster, algorithms: Mapping[str, str]) -> Asked:
    """The step that a folder of Chakra execution traces holds.

    Raises UsageError when it holds none, or is one of them.
    """
    if path.is_file():
        raise UsageError(f"{path} is one file: name a folder of Chakra traces, one of each rank")
    program = read_chakra(path)
    case = Case(name=program.name, summary="", program=program, algorithms=algorithms)
    return Asked(cluster=cluster, cases=[case], facts={"model": program.name})


def asked_of_preset(preset: Preset, cluster: Cluster, algorithms: Mapping[str, str]) -> Asked:
    """A published run in all its variants, with the algorithms of each but those given."""
    cases = [replace(case, algorithms={**case.algorithms, **algorithms}) for case in preset.cases]
    facts = {"model": preset.title, "preset": preset.name, "preset_source": preset.source}
    return Asked(cluster=cluster, cases=cases, facts=facts, published=preset.published)


def asked_of_model(
    name: str, cluster: Cluster, options: WorkloadOptions, algorithms: Mapping[str, str]
) -> Asked:
    """A step of a model under each strategy asked for.

    Raises UsageError when there is no such model, a strategy cannot run there, or the ranks or the
    batch do not fit the model or the cluster.
    """
    model = _named_model(name)
    own = has_own_step(model, shared=options.hybrid)
    _check_options(options, model if own else None)
    layout = _layout(cluster, options, own=own)
    if layout.precision not in cluster.device.flops:
        raise UsageError(
            f"the devices of {cluster.name} have no rate for {layout.precision}: choose another "
            f"--precision of {', '.join(cluster.device.flops)}, or add it to the cluster's file"
        )
    make = _own if own else _hybrid if options.hybrid else _data_parallel
    cases: list[Case] = []
    facts_of: dict[str, Mapping[str, Any]] = {}
    for strategy in _strategies(cluster, options, own=own):
        program, memory = make(model, strategy, layout, options)
        cases.append(
            Case(
                name=strategy,
                summary=simulated_strategy(strategy).summary,
                program=replace(program, name=strategy),
                algorithms=algorithms,
            )
        )
        facts_of[strategy] = _facts_of(cluster, program, memory)
    return Asked(
        cluster=cluster,
        cases=cases,
        facts=_facts(model, layout, options) | ({"model": program.name} if own else {}),
        facts_of=facts_of,
        tokens=layout.batch * model.row(options.tokens) if isinstance(model, Transformer) else None,
    )


def _facts_of(cluster: Cluster, program: Program, memory: Sequence[Memory]) -> dict[str, Any]:
    """What run.json holds of a case: where its ranks are, and what they keep of the model."""
    host_of = cluster.host_of[cluster.placed(program.ranks)]
    return {
        "placement": spread_record(spread(program, host_of)),
        "model_memory": memory_record(memory, cluster.device.memory),
    }


def _named_model(name: str) -> Model:
    """The model of that name; raises UsageError where there is neither it nor such a file."""
    try:
        return model_named(name)
    except UsageError as error:
        sentence = str(error)
        complete = is_model_file(name) or sentence.endswith("?")
        others = "" if complete else ", or a folder of Chakra .et files by its path"
        raise UsageError(sentence + others) from None


@dataclass(frozen=True, kw_only=True)
class _Layout:
    """How a model is laid out on ranks: what was asked for, and what follows from it.

    ``batch`` rows in all, in ``micro_batches`` of ``rows`` on each replica.
    """

    mesh: Mesh
    batch: int
    micro_batches: int
    rows: int
    precision: str
    reduce_dtype: str


def _layout(cluster: Cluster, options: WorkloadOptions, *, own: bool) -> _Layout:
    """The layout that was asked for.

    Raises UsageError when its ranks do not fit the cluster, or its batch not its ranks.
    """
    mesh = _mesh(cluster, options)
    batch, micro_batches = _batch(options, mesh, own=own)
    step = mesh.replicas * micro_batches
    if batch % step:
        raise UsageError(
            f"--batch {batch} does not divide among {mesh.replicas} replicas of {micro_batches} "
            f"micro-batch{'es' * (micro_batches > 1)} each; the nearest that does is "
            f"{max(step, round(batch / step) * step)}"
        )
    return _Layout(
        mesh=mesh,
        batch=batch,
        micro_batches=micro_batches,
        rows=batch // step,
        precision=options.precision or ("bf16" if "bf16" in cluster.device.flops else "fp32"),
        reduce_dtype=options.reduce_dtype or "fp32",
    )


def _mesh(cluster: Cluster, options: WorkloadOptions) -> Mesh:
    """The ranks along each axis, as many replicas as fit where nothing says how many."""
    one = Mesh(
        tensor=options.tensor or 1,
        context=options.context or 1,
        expert=options.expert or 1,
        pipeline=options.pipeline or 1,
    )
    ranks = options.ranks or (one.ranks * options.data if options.data else cluster.order.size)
    cluster.placed(max(ranks, one.ranks * (options.data or 1)))
    return one.replicated(ranks, options.data)


def _batch(options: WorkloadOptions, mesh: Mesh, *, own: bool) -> tuple[int, int]:
    """Rows of the global batch, and micro-batches of each replica."""
    if own:
        micro_batches = options.micro_batches or options.accumulate or 1
        return options.batch or _ROWS_OF_A_RANK * mesh.replicas * micro_batches, micro_batches
    if not options.hybrid:
        return options.batch or _ROWS_OF_A_RANK * mesh.ranks, options.accumulate or 1
    if options.batch is None:
        micro_batches = options.micro_batches or _MICRO_BATCHES_OF_A_STAGE * mesh.pipeline
        return mesh.replicas * micro_batches, micro_batches
    return options.batch, options.micro_batches or max(1, options.batch // mesh.replicas)


def _facts(model: Model, layout: _Layout, options: WorkloadOptions) -> dict[str, Any]:
    """What run.json holds of the model and how it is trained."""
    return {
        "model": f"{model.name}, {layout.mesh}" if options.hybrid else model.name,
        "model_config": _config(model, options),
        "precision": layout.precision,
        "reduce_dtype": layout.reduce_dtype,
        "batch": layout.batch,
        "micro_batches": layout.micro_batches,
    }


def _config(model: Model, options: WorkloadOptions) -> dict[str, Any] | None:
    """The dimensions of a transformer as ``train`` calls them; None of another model."""
    if not isinstance(model, Transformer):
        return None
    return {
        "layers": model.layers,
        "heads": model.heads,
        "embd": model.hidden,
        "context": model.row(options.tokens),
        "vocabulary": model.vocabulary,
        "parameters": model.parameters,
    }


def _check_options(options: WorkloadOptions, own: Model | None) -> None:
    """Raise UsageError for an option that nothing would read; ``own`` has a step of its own."""
    for name in ("bucket", "tokens", "sequence_parallel", "recompute") if own else ():
        if own and name in options.given():
            raise UsageError(
                f"--{name.replace('_', '-')} is not for {own.name}, which ranks share in a way of "
                "its own: leave it out"
            )
    unread = ("accumulate",) if options.hybrid else ()
    for name in unread:
        if getattr(options, name) is not None:
            raise UsageError(f"--{name} is about plain data parallelism: leave it out")
    for name in ("schedule", "interleave"):
        if getattr(options, name) is not None and (options.pipeline or 1) == 1:
            raise UsageError(f"--{name} is about a pipeline: give --pipeline 2 or more too")
    if options.sequence_parallel and (options.tensor or 1) == 1:
        raise UsageError(
            "--sequence-parallel is about tensor parallelism: give --tensor 2 or more too"
        )


def able_strategies(cluster: Cluster) -> list[str]:
    """The strategies of ``all`` on a cluster: those that can be trained, and simulated there."""
    return [
        strategy.name
        for strategy in live_strategies().values()
        if runs_on(strategy, cluster) and not not_simulated(strategy)
    ]


def runs_on(strategy: Strategy, cluster: Cluster) -> bool:
    """Whether the devices of a cluster have what a strategy needs.

    Only devices on a bus, as the ranks of a CPU's host are, have memory that all of them see.
    """
    shares_memory = cluster.hosts == 1 and cluster.inside and cluster.inside.kind == "bus"
    return bool(shares_memory) or not strategy.in_shared_memory


def _strategies(cluster: Cluster, options: WorkloadOptions, *, own: bool) -> list[str]:
    default = DEFAULT_STRATEGY if own else "replicated" if options.hybrid else "all"
    asked = strategy_of_zero(options.zero, options.strategy)
    asked = default if asked is None else asked
    if asked == "all":
        return (
            list(strategies_of_many_axes()) if options.hybrid or own else able_strategies(cluster)
        )
    names = list(dict.fromkeys(asked.split(",")))
    for name in names:
        if not runs_on(simulated_strategy(name), cluster):
            raise UsageError(
                f"the strategy {name} keeps parameters in memory that ranks share, and the devices "
                f"of {cluster.name} share none: choose another"
            )
    return names


def _data_parallel(
    model: Model, strategy: str, layout: _Layout, options: WorkloadOptions
) -> tuple[Program, tuple[Memory, ...]]:
    ranks, row = layout.mesh.ranks, model.row(options.tokens)
    program = data_parallel(
        model,
        strategy,
        ranks=ranks,
        batch=layout.batch,
        context=options.tokens,
        accumulate=layout.micro_batches,
        dtype=layout.precision,
        reduce_dtype=layout.reduce_dtype,
        bucket_bytes=options.bucket or _BUCKET,
    )
    memory = memory_of_replica(
        model,
        strategy,
        ranks=ranks,
        rows=layout.rows,
        row=row,
        dtype=layout.precision,
        reduce_dtype=layout.reduce_dtype,
    )
    return program, (memory,)


def _own(
    model: Model, strategy: str, layout: _Layout, _: WorkloadOptions
) -> tuple[Program, tuple[Memory, ...]]:
    return own_step(
        model,
        layout.mesh,
        batch=layout.batch,
        accumulate=layout.micro_batches,
        dtype=layout.precision,
        reduce_dtype=layout.reduce_dtype,
        strategy=strategy,
    )


def _hybrid(
    model: Model, strategy: str, layout: _Layout, options: WorkloadOptions
) -> tuple[Program, tuple[Memory, ...]]:
    schedule = options.schedule or "1f1b"
    step = Hybrid(
        transformer_of(model),
        mesh=layout.mesh,
        micro_batches=layout.micro_batches,
        rows=layout.rows,
        tokens=options.tokens,
        dtype=layout.precision,
        reduce_dtype=layout.reduce_dtype,
        strategy=strategy,
        bucket_bytes=options.bucket or _BUCKET,
        schedule=schedule,
        interleave=options.interleave or (2 if schedule == "interleaved" else 1),
        sequence_parallel=options.sequence_parallel,
        recompute=options.recompute or "none",
    )
    return step.program, step.memory
