"""From what was asked to the program that is replayed."""

from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from typing import Any

from steptime.errors import UsageError
from steptime.program import Compute, Program, check, meetings
from steptime.replay.demand import Demand, demands, predicted, scaled
from steptime.replay.device import Device
from steptime.replay.options import ProxyOptions
from steptime.replay.standin import Kind
from steptime.units import format_bytes
from steptime.workloads.data_parallel import data_parallel
from steptime.workloads.hybrid import hybrid
from steptime.workloads.models import Model, Transformer, model_named, transformer_of

AXES = ("data", "tensor", "pipeline", "expert", "context")
_MOST_MET = 2048
"""Up to so many ranks it is checked before any starts who meets whom: that takes a second."""

_BUCKET_BYTES = 25 << 20
_PROCESS_BYTES = {"mpi": 60 << 20}
_TORCH_PROCESS_BYTES = 300 << 20


@dataclass(frozen=True, kw_only=True)
class Proxy:
    """A program to replay. ``times``: where the times of computing come from, in words.

    ``messages``: the dtype of what Sends carry. ``demands``: of each class of ranks.
    """

    model: str
    program: Program
    messages: str
    fraction: Fraction
    compute: Kind
    device: Device
    times: str
    demands: tuple[Demand, ...]

    def memory_bytes(self) -> int:
        """Bytes of the buffers of the rank that has the most."""
        return max(demand.memory_bytes for demand in self.demands)


def proxy_of(model: str, options: ProxyOptions, ranks: int) -> Proxy:
    """The proxy that was asked for, on so many ranks.

    Raises UsageError for what cannot be, as the workloads say.
    """
    whole = _program(model, options, ranks)
    check(whole)
    messages = "fp32" if options.compat else options.precision
    program = scaled(whole, options.fraction, messages)
    if ranks <= _MOST_MET:
        meetings(program)
    device = Device(flops=options.flops, memory=options.memory)
    kind, times = _stand_in(program, options, device)
    return Proxy(
        model=model,
        program=program,
        messages=messages,
        fraction=options.fraction,
        compute=kind,
        device=device,
        times=times,
        demands=demands(program, device, messages),
    )


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


def _program(model: str, options: ProxyOptions, ranks: int) -> Program:
    if options.compat:
        return _original(model, options, ranks)
    described: Model = model_named(model)
    if options.layers:
        described = replace(transformer_of(described), layers=options.layers)
    if options.hybrid:
        return _hybrid(transformer_of(described), options, ranks)
    options.refuse(("acc_scale",), "is about --compat")
    if options.data not in (None, ranks):
        raise UsageError(f"--data {options.data} is not the {ranks} ranks there are: leave it out")
    if options.interleave:
        raise UsageError("--interleave is about a pipeline: give --pipeline too")
    return data_parallel(
        described,
        options.strategy,
        ranks=ranks,
        batch=options.batch or 8 * ranks,
        context=options.context,
        dtype=options.precision,
        bucket_bytes=options.bucket or _BUCKET_BYTES,
    )


def _hybrid(model: Transformer, options: ProxyOptions, ranks: int) -> Program:
    options.refuse(("batch", "bucket", "acc_scale"), "does not go with --tensor or --pipeline")
    tensor, pipeline = options.tensor or 1, options.pipeline or 1
    data = options.data or max(1, ranks // (tensor * pipeline))
    if prod((tensor, pipeline, data)) != ranks:
        each = tensor * pipeline * (options.data or 1)
        below = ranks // each * each
        nearest = f"{below} or {below + each}" if below else f"{each}"
        raise UsageError(
            f"data {data} × tensor {tensor} × pipeline {pipeline} are "
            f"{prod((tensor, pipeline, data))} ranks, not {ranks}: the nearest number of ranks "
            f"that goes is {nearest}"
        )
    if options.schedule and pipeline == 1:
        raise UsageError("a pipeline schedule needs stages: give --pipeline 2 or more")
    return hybrid(
        model,
        tensor=tensor,
        pipeline=pipeline,
        data=data,
        micro_batches=options.micro_batches or 2 * pipeline,
        schedule=options.schedule or "1f1b",
        interleave=options.interleave or 1,
        rows=options.rows or 1,
        context=options.context,
        dtype=options.precision,
        strategy=options.strategy,
    )


def _original(name: str, options: ProxyOptions, ranks: int) -> Program:
    from steptime.workloads.compat import compat

    others = ("data", "tensor", "schedule", "interleave", "batch", "rows", "context", "bucket")
    options.refuse((*others, "strategy", "precision"), "is not for the originals to choose")
    given = {
        "layers": options.layers,
        "stages": options.pipeline,
        "micro_batches": options.micro_batches,
        "scale": options.acc_scale,
    }
    return compat(name, ranks, **{what: value for what, value in given.items() if value})


def _stand_in(program: Program, options: ProxyOptions, device: Device) -> tuple[Kind, str]:
    """What stands in for computing, and where its times come from."""
    ops = [op for of_class in program.lists for op in of_class if isinstance(op, Compute)]
    given = all(op.seconds is not None for op in ops)
    kind = options.compute
    if kind == "auto":
        kind = "sleep" if ops and (given or device.flops) else "nothing"
    if kind == "nothing":
        return kind, "computing is left out and takes no time"
    if given:
        return kind, "computing takes the times that the original gives, measured by its authors"
    if device.flops is None:
        raise UsageError(
            f"nothing says how long to {'be busy' if kind == 'busy' else kind}: give "
            "--device-flops, as 312TFLOP/s, or --compute nothing"
        )
    free = "" if device.memory else "; memory traffic takes no time"
    return kind, f"computing takes what its FLOP take at {device.described}, computed{free}"


def plan_record(proxy: Proxy) -> dict[str, Any]:
    """What the run is, as run.json has it; all of it is computed."""
    program = proxy.program
    return {
        "model": proxy.model,
        "program": program.name,
        "axes": dict.fromkeys(AXES, 1) | dict(program.axes),
        "scale_bytes": str(proxy.fraction),
        "compute": {"stand_in": proxy.compute, "times": proxy.times, "source": "computed"},
        "per_rank": _per_rank(proxy),
        "step_time_s": None,
    }


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
