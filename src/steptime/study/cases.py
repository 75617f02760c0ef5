"""The steps that a simulation is asked for: of a model, of a preset, or of a program's files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from steptime.cluster import Cluster
from steptime.errors import UsageError
from steptime.program import Program
from steptime.program.chakra import read_chakra
from steptime.study.options import WorkloadOptions
from steptime.train.strategies import strategies
from steptime.workloads.data_parallel import data_parallel
from steptime.workloads.hybrid import hybrid
from steptime.workloads.models import Model, Transformer, model_named, transformer_of
from steptime.workloads.presets import Case, Preset, Published

_ROWS_OF_A_RANK = 8
_MICRO_BATCHES_OF_A_STAGE = 4  # of a pipeline that was told no batch: its bubble is then a fifth
_BUCKET = 25 << 20  # as PyTorch's DDP


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Steps to simulate on a cluster.

    ``tokens`` that each trains on, None where nothing is known of them. ``facts``: what run.json
    says of them beside their figures. ``published``: what was measured of a preset's.
    """

    cluster: Cluster
    cases: Sequence[Case]
    facts: Mapping[str, Any]
    tokens: int | None = None
    published: Sequence[Published] = ()


def is_program(workload: str) -> bool:
    """Whether a workload is a program's files rather than the name of a model."""
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
    _check_options(options)
    layout = _layout(cluster, options)
    if layout.precision not in cluster.device.flops:
        raise UsageError(
            f"the devices of {cluster.name} have no rate for {layout.precision}: choose another "
            f"--precision of {', '.join(cluster.device.flops)}, or add it to the cluster's file"
        )
    make = _hybrid_program if options.hybrid else _data_parallel_program
    cases = [
        Case(
            name=strategy,
            summary=strategies()[strategy].summary,
            program=replace(make(model, strategy, layout, options), name=strategy),
            algorithms=algorithms,
        )
        for strategy in _strategies(cluster, options)
    ]
    return Asked(
        cluster=cluster,
        cases=cases,
        facts=_facts(model, layout, options),
        tokens=layout.batch * model.row(options.context)
        if isinstance(model, Transformer)
        else None,
    )


def _named_model(name: str) -> Model:
    """The model of that name; raises UsageError where there is neither it nor such a file."""
    try:
        return model_named(name)
    except UsageError as error:
        raise UsageError(f"{error}, or a folder of Chakra .et files by its path") from None


@dataclass(frozen=True, kw_only=True)
class _Layout:
    """How a model is laid out on ranks: what was asked for, and what follows from it.

    ``batch`` rows in all, in ``micro_batches`` of ``rows`` on each of ``data`` replicas.
    """

    tensor: int
    data: int
    pipeline: int
    batch: int
    micro_batches: int
    rows: int
    precision: str
    reduce_dtype: str

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return self.tensor * self.data * self.pipeline


def _layout(cluster: Cluster, options: WorkloadOptions) -> _Layout:
    """The layout that was asked for.

    Raises UsageError when its ranks do not fit the cluster, or its batch not its ranks.
    """
    tensor, pipeline = options.tensor or 1, options.pipeline or 1
    shared = tensor * pipeline
    ranks = options.ranks or (shared * options.data if options.data else cluster.order.size)
    data = options.data or max(1, ranks // shared)
    cluster.placed(max(ranks, shared * data))
    if shared * data != ranks:
        raise UsageError(
            f"tensor {tensor} × data {data} × pipeline {pipeline} is {shared * data} ranks and not "
            f"{ranks}: give --ranks, or --data, that agrees"
        )
    batch, micro_batches = _batch(options, ranks, data, pipeline)
    if batch % (data * micro_batches):
        step = data * micro_batches
        raise UsageError(
            f"--batch {batch} does not divide among {data} replicas of {micro_batches} "
            f"micro-batch{'es' * (micro_batches > 1)} each; the nearest that does is "
            f"{max(step, round(batch / step) * step)}"
        )
    return _Layout(
        tensor=tensor,
        data=data,
        pipeline=pipeline,
        batch=batch,
        micro_batches=micro_batches,
        rows=batch // (data * micro_batches),
        precision=options.precision or ("bf16" if "bf16" in cluster.device.flops else "fp32"),
        reduce_dtype=options.reduce_dtype or "fp32",
    )


def _batch(options: WorkloadOptions, ranks: int, data: int, pipeline: int) -> tuple[int, int]:
    """Rows of the global batch, and micro-batches of each replica."""
    if not options.hybrid:
        return options.batch or _ROWS_OF_A_RANK * ranks, options.accumulate or 1
    if options.batch is None:
        micro_batches = options.micro_batches or _MICRO_BATCHES_OF_A_STAGE * pipeline
        return data * micro_batches, micro_batches
    return options.batch, options.micro_batches or max(1, options.batch // data)


def _facts(model: Model, layout: _Layout, options: WorkloadOptions) -> dict[str, Any]:
    """What run.json holds of the model and how it is trained."""
    axes = f"tensor {layout.tensor} × data {layout.data} × pipeline {layout.pipeline}"
    return {
        "model": f"{model.name}, {axes}" if options.hybrid else model.name,
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
        "context": model.row(options.context),
        "vocabulary": model.vocabulary,
        "parameters": model.parameters,
    }


def _check_options(options: WorkloadOptions) -> None:
    """Raise UsageError for an option that nothing would read."""
    unread = ("accumulate", "bucket") if options.hybrid else ()
    for name in unread:
        if getattr(options, name) is not None:
            raise UsageError(f"--{name} is about plain data parallelism: leave it out")
    for name in ("schedule", "interleave"):
        if getattr(options, name) is not None and (options.pipeline or 1) == 1:
            raise UsageError(f"--{name} is about a pipeline: give --pipeline 2 or more too")


def able_strategies(cluster: Cluster) -> list[str]:
    """The strategies that can run on a cluster.

    Only devices on a bus, as the ranks of a CPU's host are, have memory that all of them see.
    """
    shares_memory = cluster.hosts == 1 and cluster.inside and cluster.inside.kind == "bus"
    return [s.name for s in strategies().values() if shares_memory or not s.in_shared_memory]


def _strategies(cluster: Cluster, options: WorkloadOptions) -> list[str]:
    known, able = strategies(), able_strategies(cluster)
    default = "replicated" if options.hybrid else "all"
    asked = default if options.strategy is None else options.strategy
    if asked == "all":
        return ["replicated", "sharded"] if options.hybrid else able
    names = list(dict.fromkeys(asked.split(",")))
    for name in names:
        if name not in known:
            raise UsageError(f"there is no strategy '{name}'; choose from {', '.join(known)}")
        if name not in able:
            raise UsageError(
                f"the strategy {name} keeps parameters in memory that ranks share, and the devices "
                f"of {cluster.name} share none: choose another"
            )
    return names


def _data_parallel_program(
    model: Model, strategy: str, layout: _Layout, options: WorkloadOptions
) -> Program:
    return data_parallel(
        model,
        strategy,
        ranks=layout.ranks,
        batch=layout.batch,
        context=options.context,
        accumulate=layout.micro_batches,
        dtype=layout.precision,
        reduce_dtype=layout.reduce_dtype,
        bucket_bytes=options.bucket or _BUCKET,
    )


def _hybrid_program(
    model: Model, strategy: str, layout: _Layout, options: WorkloadOptions
) -> Program:
    schedule = options.schedule or "1f1b"
    return hybrid(
        transformer_of(model),
        tensor=layout.tensor,
        data=layout.data,
        pipeline=layout.pipeline,
        micro_batches=layout.micro_batches,
        rows=layout.rows,
        context=options.context,
        dtype=layout.precision,
        reduce_dtype=layout.reduce_dtype,
        strategy=strategy,
        schedule=schedule,
        interleave=options.interleave or (2 if schedule == "interleaved" else 1),
    )
