"""From what was asked to the program that is replayed."""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from steptime.arrays import Ints
from steptime.cluster import Cluster, cluster_named
from steptime.errors import UsageError
from steptime.program import Compute, Op, Program, check, match_calls
from steptime.program.pair_bytes import MOST_PAIRED, calls_record, pairs_record, program_bytes
from steptime.replay.demand import Demand, demands, predicted, scaled
from steptime.replay.device import Device
from steptime.replay.options import ProxyOptions
from steptime.replay.spread import hosts_of, memory_record, spread, spread_record
from steptime.replay.standin import Kind
from steptime.replay.times import with_times
from steptime.simulate.device import seconds_on
from steptime.units import format_bytes
from steptime.workloads.compat import compat_named
from steptime.workloads.data_parallel import data_parallel
from steptime.workloads.hybrid import Hybrid
from steptime.workloads.mesh import Mesh
from steptime.workloads.model_memory import Memory, memory_of_replica
from steptime.workloads.models import Model, Transformer, is_model_file, model_named, transformer_of
from steptime.workloads.steps import DEFAULT_STRATEGY, has_own_step, own_step
from steptime.workloads.sync import strategy_of_zero

AXES = ("data", "tensor", "pipeline", "expert", "context")
_MOST_MET = 2048
"""Up to so many ranks it is checked before any starts who meets whom: that takes a second."""

_BUCKET_BYTES = 25 << 20
_PROCESS_BYTES = {"mpi": 60 << 20}
_TORCH_PROCESS_BYTES = 300 << 20


@dataclass(frozen=True, kw_only=True)
class Proxy:
    """A program to replay. ``times``: where the times of computing come from, in words.

    ``messages``: the dtype of what Sends carry. ``demands``: of each class of ranks. ``cluster``:
    where it is to be simulated, if that was asked for. ``model_memory``: what a rank of each kind
    keeps of the model, which no proxy takes. ``host_of``: the host of each rank, shape (ranks,).
    ``defects``: what is wrong with the original that it follows.
    """

    model: str
    program: Program
    messages: str
    fraction: Fraction
    compute: Kind
    device: Device
    times: str
    demands: tuple[Demand, ...]
    model_memory: tuple[Memory, ...]
    host_of: Ints
    cluster: Cluster | None = None
    defects: tuple[str, ...] = ()

    @cached_property
    def placement(self) -> list[dict[str, Any]]:
        """How the groups of each axis are spread over hosts, as run.json has it."""
        return spread_record(spread(self.program, self.host_of))

    @cached_property
    def memory_of_model(self) -> dict[str, Any] | None:
        """What the rank that keeps most of the model does; None of an original, which has none."""
        if not self.model_memory:
            return None
        return memory_record(
            self.model_memory, self.cluster.device.memory if self.cluster else None
        )

    def memory_bytes(self) -> int:
        """Bytes of the buffers of the rank that has the most."""
        return max(demand.memory_bytes for demand in self.demands)


def proxy_of(model: str, options: ProxyOptions, ranks: int) -> Proxy:
    """The proxy that was asked for, on so many ranks.

    Raises UsageError for what cannot be, as the workloads say.
    """
    whole, memory = _program(model, options, ranks)
    check(whole)
    messages = "fp32" if options.compat else options.precision
    program = scaled(whole, options.fraction, messages)
    if ranks <= _MOST_MET:
        match_calls(program)
    device = Device(flops=options.flops, memory=options.memory)
    cluster = cluster_named(options.cluster) if options.cluster else None
    if cluster:
        cluster.placed(ranks)
    program, said = with_times(program, options)
    kind, times = _stand_in(program, options, device, cluster, said)
    if cluster and kind != "nothing" and device.flops is None:
        program = timed_on(program, cluster)
    return Proxy(
        model=model_named(model).name if is_model_file(model) else model,
        program=program,
        messages=messages,
        fraction=options.fraction,
        compute=kind,
        device=device,
        times=times,
        demands=demands(program, device, messages, distinct=options.verify),
        model_memory=memory,
        host_of=_hosts(options, cluster, ranks),
        cluster=cluster,
        defects=compat_named(model).defects if options.compat else (),
    )


def _hosts(options: ProxyOptions, cluster: Cluster | None, ranks: int) -> Ints:
    """The host of each rank in the placement that is told."""
    if cluster:
        return cluster.host_of[cluster.placed(ranks)]
    return hosts_of(ranks, options.ranks_per_host)


def timed_on(program: Program, cluster: Cluster) -> Program:
    """The program whose computing has the seconds that it takes on a device of a cluster.

    Raises UsageError where the device has no rate for a dtype.
    """

    def timed(op: Op) -> Op:
        if not isinstance(op, Compute):
            return op
        return replace(op, seconds=seconds_on(cluster.device, op))

    return replace(program, lists=tuple(tuple(map(timed, ops)) for ops in program.lists))


def check_memory(proxy: Proxy, backend: str, ranks_here: int, available: int) -> None:
    """Raise UsageError where the ranks of this host need more than the bytes available."""
    process = _PROCESS_BYTES.get(backend, _TORCH_PROCESS_BYTES)
    needed = ranks_here * (process + proxy.memory_bytes())
    if needed > available:
        room = available // ranks_here - process
        smaller = "fewer ranks"
        if room > 0:
            times = -(-proxy.memory_bytes() // room)
            smaller = f"--scale-bytes {proxy.fraction / times} or {smaller}"
        raise UsageError(
            f"{ranks_here} ranks on this host need {format_bytes(needed)} of memory and "
            f"{format_bytes(available)} are free: choose {smaller}"
        )


def _program(model: str, options: ProxyOptions, ranks: int) -> tuple[Program, tuple[Memory, ...]]:
    """The step that was asked for, and what a rank of each kind keeps of its model."""
    if options.compat:
        return _original(model, options, ranks), ()
    described: Model = model_named(model)
    if options.layers:
        described = transformer_of(described).with_layers(options.layers)
    if has_own_step(described, shared=options.hybrid):
        return _own_step(described, options, ranks)
    strategy = strategy_of_zero(options.zero, options.strategy) or "replicated"
    if options.hybrid:
        step = _hybrid(transformer_of(described), strategy, options, ranks)
        return step.program, step.memory
    options.refuse(("acc_scale",), "is about --compat")
    if options.data not in (None, ranks):
        raise UsageError(f"--data {options.data} is not the {ranks} ranks there are: leave it out")
    if options.interleave:
        raise UsageError("--interleave is about a pipeline: give --pipeline too")
    batch = options.batch or 8 * ranks
    program = data_parallel(
        described,
        strategy,
        ranks=ranks,
        batch=batch,
        context=options.tokens,
        dtype=options.precision,
        bucket_bytes=options.bucket or _BUCKET_BYTES,
    )
    memory = memory_of_replica(
        described,
        strategy,
        ranks=ranks,
        rows=batch // ranks,
        row=described.row(options.tokens),
        dtype=options.precision,
    )
    return program, (memory,)


def _own_step(
    model: Model, options: ProxyOptions, ranks: int
) -> tuple[Program, tuple[Memory, ...]]:
    """The step of a model that ranks share in a way of its own."""
    others = ("schedule", "interleave", "rows", "tokens", "bucket", "acc_scale")
    why = f"is not for {model.name}, which ranks share in a way of its own"
    options.refuse((*others, "sequence_parallel", "recompute"), why)
    mesh = _mesh(options, ranks)
    return own_step(
        model,
        mesh,
        batch=options.batch or 8 * mesh.replicas,
        accumulate=options.micro_batches or 1,
        dtype=options.precision,
        strategy=strategy_of_zero(options.zero, options.strategy) or DEFAULT_STRATEGY,
    )


def _hybrid(model: Transformer, strategy: str, options: ProxyOptions, ranks: int) -> Hybrid:
    options.refuse(("batch", "acc_scale"), "does not go with hybrid parallelism")
    mesh = _mesh(options, ranks)
    if options.schedule and mesh.pipeline == 1:
        raise UsageError("a pipeline schedule needs stages: give --pipeline 2 or more")
    if options.sequence_parallel and mesh.tensor == 1:
        raise UsageError("--sequence-parallel is about tensor parallelism: give --tensor 2 or more")
    return Hybrid(
        model,
        mesh=mesh,
        micro_batches=options.micro_batches or 2 * mesh.pipeline,
        schedule=options.schedule or "1f1b",
        interleave=options.interleave or 1,
        rows=options.rows or 1,
        tokens=options.tokens,
        dtype=options.precision,
        strategy=strategy,
        bucket_bytes=options.bucket or _BUCKET_BYTES,
        sequence_parallel=options.sequence_parallel,
        recompute=options.recompute,
    )


def _mesh(options: ProxyOptions, ranks: int) -> Mesh:
    """The ranks along each axis, as many replicas as fit where nothing says how many."""
    one = Mesh(
        tensor=options.tensor or 1,
        context=options.context or 1,
        expert=options.expert or 1,
        pipeline=options.pipeline or 1,
    )
    return one.replicated(ranks, options.data)


def _original(name: str, options: ProxyOptions, ranks: int) -> Program:
    from steptime.workloads.compat import compat

    axes = ("data", "tensor", "expert", "context", "sequence_parallel", "recompute", "zero")
    others = ("schedule", "interleave", "batch", "rows", "tokens", "bucket", "strategy")
    options.refuse((*axes, *others, "precision"), "is not for the originals to choose")
    given = {
        "layers": options.layers,
        "stages": options.pipeline,
        "micro_batches": options.micro_batches,
        "scale": options.acc_scale,
    }
    return compat(name, ranks, **{what: value for what, value in given.items() if value})


def _stand_in(
    program: Program, options: ProxyOptions, device: Device, cluster: Cluster | None, said: str
) -> tuple[Kind, str]:
    """What stands in for computing, and where its times come from, if not ``said``."""
    ops = [op for of_class in program.lists for op in of_class if isinstance(op, Compute)]
    given = all(op.seconds is not None for op in ops)
    kind = options.compute
    if kind == "auto":
        kind = "sleep" if ops and (given or device.flops or cluster) else "nothing"
    if kind == "nothing":
        return kind, "computing is left out and takes no time"
    if said:
        return kind, said
    if given:
        return kind, "computing takes the times in the original, measured by its authors"
    if device.flops is None and cluster:
        return kind, f"computing takes what it does on {cluster.device.name} there, computed"
    if device.flops is None:
        raise UsageError(
            f"nothing says how long to {'be busy' if kind == 'busy' else kind}: give "
            "--device-flops, as 312TFLOP/s, --compute-time, --times or --compute nothing"
        )
    free = "" if device.memory else "; memory traffic takes no time"
    return kind, f"computing takes what its FLOP take at {device.described}, computed{free}"


def plan_record(proxy: Proxy) -> dict[str, Any]:
    """What the run is, as run.json has it; all of it is computed."""
    program = proxy.program
    return {
        "model": proxy.model,
        **({"defects": list(proxy.defects)} if proxy.defects else {}),
        "program": program.name,
        "axes": dict.fromkeys(AXES, 1) | dict(program.axes),
        "scale_bytes": str(proxy.fraction),
        "compute": {"stand_in": proxy.compute, "times": proxy.times, "source": "computed"},
        "placement": proxy.placement,
        "model_memory": proxy.memory_of_model,
        "per_rank": _per_rank(proxy),
        "calls": calls_record(program),
        **_pairs(program),
        "step_time_s": None,
    }


def _pairs(program: Program) -> dict[str, Any]:
    """The bytes from rank to rank, where there are few ranks; computed."""
    if program.ranks > MOST_PAIRED:
        return {}
    return {"pairs": pairs_record(program_bytes(program, match_calls(program)))}


def _per_rank(proxy: Proxy) -> list[dict[str, Any]]:
    program = proxy.program
    shared = [_of_class(demand) for demand in proxy.demands]
    coordinates = {axis: program.coordinate(axis).tolist() for axis in program.axes}
    moved = predicted(program)
    return [
        {
            "rank": rank,
            "coords": {axis: along[rank] for axis, along in coordinates.items()},
            **shared[kind],
            "predicted_bytes": {axes: traffic._asdict() for axes, traffic in moved[rank].items()},
        }
        for rank, kind in enumerate(program.class_of.tolist())
    ]


def _of_class(demand: Demand) -> dict[str, Any]:
    return {
        "sends": vars(demand.sends),
        "receives": vars(demand.receives),
        "collectives": [
            {"kind": kind, "axis": "+".join(axes), "group_size": members, **vars(calls)}
            for (kind, axes, members), calls in demand.collectives.items()
        ],
        "compute_s": demand.compute_s,
        "memory_bytes": demand.memory_bytes,
    }
