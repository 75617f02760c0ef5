"""From what was asked to the program that is replayed."""

from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TypeAlias

from steptime.arrays import Ints
from steptime.cluster import Cluster, cluster_named
from steptime.errors import UsageError
from steptime.predict.driven import driven_step
from steptime.program import Compute, Program, check, match_calls
from steptime.program.pair_bytes import MOST_PAIRED, calls_record, pairs_record, program_bytes
from steptime.replay.demand import Demand, demands, predicted, scaled
from steptime.replay.device import Device
from steptime.replay.options import ProxyOptions
from steptime.replay.run_options import Kind
from steptime.replay.spread import hosts_of, spread
from steptime.replay.times import with_seconds, with_times
from steptime.runs.environment import here
from steptime.runs.expected import Expected, expected_of
from steptime.runs.figures import AxisPlacement, CallKind, ModelMemory, PairBytes
from steptime.runs.memory import memory_on, with_fits
from steptime.runs.proxy_record import GroupCalls, Moved, ProxyPlan, ProxyRecord, RankPlan
from steptime.runs.utilisation import Utilisation, step_work, utilisation
from steptime.simulate.device import timer
from steptime.units import format_bytes
from steptime.workloads.compat import compat, compat_named
from steptime.workloads.models import Model
from steptime.workloads.precision import element_dtype
from steptime.workloads.spec import StepSpec
from steptime.workloads.step import step_of

AXES = ("data", "tensor", "pipeline", "expert", "context")
_MOST_MET = 2048
"""Up to so many ranks it is checked before any starts who meets whom: that takes a second."""

_PROCESS_BYTES = {"mpi": 60 << 20}
_TORCH_PROCESS_BYTES = 300 << 20


@dataclass(frozen=True, kw_only=True)
class Proxy:
    """A program to replay, of the step that ``spec`` says, its defaults filled in.

    ``times``: where the times of computing come from, in words.

    ``messages``: the dtype of what Sends carry. ``demands``: of each class of ranks. ``cluster``:
    where it is to be simulated, if that was asked for. ``model_memory``: what the rank that keeps
    most of the model does, which no proxy takes; None of an original, which has none. ``host_of``:
    the host of each rank, shape (ranks,). ``defects``: what is wrong with the original that it
    follows.
    """

    model: str
    spec: StepSpec
    program: Program
    messages: str
    fraction: Fraction
    compute: Kind
    device: Device
    times: str
    demands: tuple[Demand, ...]
    model_memory: ModelMemory | None
    host_of: Ints
    cluster: Cluster | None = None
    defects: tuple[str, ...] = ()
    described: Model | None = None

    @cached_property
    def placement(self) -> list[AxisPlacement]:
        """How the groups of each axis are spread over hosts."""
        return spread(self.program, self.host_of)

    def seconds_of(self, op: Compute) -> float:
        """How long computing takes, in which live ranks sleep."""
        return 0.0 if self.compute == "nothing" else self.device.seconds(op)

    def figures_of(self, seconds: float) -> tuple[Utilisation | None, Expected | None]:
        """What a step there that takes so long uses of its devices, and its expected error.

        Nothing where its messages or its computing are no model's.
        """
        real = self.fraction == 1 and self.compute != "nothing" and self.device.flops is None
        if self.described is None or self.cluster is None or not real:
            return None, None
        used = utilisation(step_work(self.described, self.spec, self.cluster.device), seconds)
        return used, expected_of(self.described, self.spec, self.cluster, seconds)

    def memory_bytes(self) -> int:
        """Bytes of the buffers of the rank that has the most."""
        return max(demand.memory_bytes for demand in self.demands)


def proxy_of(spec: StepSpec, options: ProxyOptions) -> Proxy:
    """The proxy of a step, on the cluster that the options name, if any.

    Raises UsageError for what cannot be, as ``step_of`` does.
    """
    cluster = cluster_named(options.cluster) if options.cluster else None
    original = options.compat is not None
    make = _original if original else _modelled
    whole, memory, full, model = make(spec, options, cluster)
    check(whole)
    messages = "fp32" if original else element_dtype(str(full.precision))
    program = scaled(whole, options.fraction, messages)
    ranks = program.ranks
    if ranks <= _MOST_MET:
        match_calls(program)
    device = Device(flops=options.flops, memory=options.memory)
    if cluster:
        cluster.placed(ranks)
    program, said = with_times(program, options)
    kind, times = _stand_in(program, options, device, cluster, said)
    if cluster and kind != "nothing" and device.flops is None:
        program = with_seconds(program, timer(cluster.device))
    return Proxy(
        model=spec.model if original else full.model,
        spec=full,
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
        defects=compat_named(spec.model).defects if original else (),
        described=model,
    )


def _hosts(options: ProxyOptions, cluster: Cluster | None, ranks: int) -> Ints:
    """The host of each rank in the placement that is told."""
    if cluster:
        return cluster.host_of[cluster.placed(ranks)]
    return hosts_of(ranks, options.ranks_per_host)


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


_Made: TypeAlias = tuple[Program, ModelMemory | None, StepSpec, Model | None]
"""A step, what the rank that keeps most of its model does, its specification, and the model."""


def _modelled(spec: StepSpec, options: ProxyOptions, cluster: Cluster | None) -> _Made:
    options.refuse(("acc_scale",), "is about --compat")
    if spec.software is not None and cluster is None:
        raise UsageError("--software drives the devices of a cluster: give --cluster too")
    step = step_of(spec, cluster)
    memory = memory_on(step, None)
    if cluster is not None:
        step = driven_step(step, cluster)
        memory = with_fits(memory_on(step, cluster), step, cluster)
    return step.program, memory, step.spec, step.model


def _original(spec: StepSpec, options: ProxyOptions, cluster: Cluster | None) -> _Made:
    """The step of an original proxy, which chooses almost everything itself."""
    for name in spec.given():
        if name not in ("model", "ranks", "layers", "pipeline", "micro_batches"):
            raise UsageError(
                f"--{name.replace('_', '-')} is not for the originals to choose: leave it out"
            )
    ranks = spec.ranks or (cluster.order.size if cluster else 1)
    given = {
        "layers": spec.layers,
        "stages": spec.pipeline,
        "micro_batches": spec.micro_batches,
        "scale": options.acc_scale,
    }
    program = compat(spec.model, ranks, **{what: value for what, value in given.items() if value})
    scale = f" --acc-scale {options.acc_scale}" if options.acc_scale else ""
    name = f"{options.compat}/{spec.model}{scale}"  # that of no other model
    return program, None, replace(spec, model=name, ranks=ranks, precision="fp32"), None


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
        there = cluster.device
        speed = f"at {100 * there.efficiency:.0f} % of peak, {there.basis}"
        if there.kernels and any(op.kernels for op in ops):
            speed = "by its kernels, fitted to published measurements"
        return kind, f"computing takes what it does on {there.name} there, {speed}"
    if device.flops is None:
        raise UsageError(
            f"nothing says how long to {'be busy' if kind == 'busy' else kind}: give "
            "--device-flops, as 312TFLOP/s, --compute-time, --times or --compute nothing"
        )
    free = "" if device.memory else "; memory traffic takes no time"
    return kind, f"computing takes what its FLOP take at {device.described}, computed{free}"


def planned(proxy: Proxy) -> ProxyRecord:
    """The record of a proxy that nobody ran."""
    return ProxyRecord(plan=plan_of(proxy), environment=here())


def plan_of(proxy: Proxy) -> ProxyPlan:
    """What the proxy is to run, for its record."""
    program = proxy.program
    pairs = None
    if program.ranks <= MOST_PAIRED:
        pairs = PairBytes(**pairs_record(program_bytes(program, match_calls(program))))
    return ProxyPlan(
        model=proxy.model,
        spec=asdict(proxy.spec),
        defects=proxy.defects,
        program=program.name,
        axes=dict.fromkeys(AXES, 1) | dict(program.axes),
        scale_bytes=str(proxy.fraction),
        compute={"stand_in": proxy.compute, "times": proxy.times, "source": "computed"},
        placement=proxy.placement,
        model_memory=proxy.model_memory,
        per_rank=_rank_plans(proxy),
        calls=[CallKind(**call) for call in calls_record(program)],
        pairs=pairs,
    )


def _rank_plans(proxy: Proxy) -> list[RankPlan]:
    program = proxy.program
    collectives = [_group_calls(demand) for demand in proxy.demands]
    coordinates = {axis: program.coordinate(axis).tolist() for axis in program.axes}
    return [
        RankPlan(
            rank=rank,
            coords={axis: along[rank] for axis, along in coordinates.items()},
            sends=proxy.demands[kind].sends,
            receives=proxy.demands[kind].receives,
            collectives=collectives[kind],
            compute_s=proxy.demands[kind].compute_s,
            memory_bytes=proxy.demands[kind].memory_bytes,
            predicted_bytes={axes: Moved(*traffic) for axes, traffic in moved.items()},
        )
        for rank, (kind, moved) in enumerate(
            zip(program.class_of.tolist(), predicted(program), strict=True)
        )
    ]


def _group_calls(demand: Demand) -> list[GroupCalls]:
    """The collectives that a rank of a class calls."""
    return [
        GroupCalls(kind=kind, axis="+".join(axes), group_size=members, **vars(calls))
        for (kind, axes, members), calls in demand.collectives.items()
    ]
