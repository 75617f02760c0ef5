"""Device time: what an op takes on a device, by its kernels or by the roofline model."""

from collections.abc import Callable
from math import inf
from typing import Any

from steptime.cluster import Device
from steptime.errors import UsageError
from steptime.program import Compute, Kernel, Op, Wait
from steptime.simulate.kernels import attention_seconds, product_seconds, stream_seconds


def seconds_on(device: Device, op: Op) -> float:
    """How long a Compute takes on a device of speed 1; 0 for any other op.

    Where the device's kernels have parameters, it takes what those of the op take, one after the
    other, or what the host takes to launch them where that is longer; an op that only moves bytes
    is one kernel. Else it computes at ``efficiency`` times the device's peak rate for its dtype.

    Raises UsageError when the device has no rate for the dtype; it lists those that it has.
    """
    return timer(device)(op)


def timer(device: Device) -> Callable[[Op], float]:
    """``seconds_on`` a device, which prices every kernel once."""
    known: dict[tuple[str, Kernel], float] = {}
    alike: dict[tuple[Any, ...], tuple[Compute, float]] = {}

    def seconds(op: Op) -> float:
        if not isinstance(op, Compute):
            return op.seconds if isinstance(op, Wait) else 0.0
        # Ops of one part of a model have the same kernels, which are kept so that the id is theirs.
        key = op.seconds, op.flops, op.nbytes, op.dtype, id(op.kernels)
        if key not in alike:
            alike[key] = op, alone(op)
        return alike[key][1]

    def alone(op: Compute) -> float:
        _check_rate(device, op)
        if device.kernels is None or op.seconds is not None or not (op.kernels or op.nbytes):
            return _roofline(device, op)
        if not op.kernels:
            if op.flops:
                return _roofline(device, op)
            return float(stream_seconds(device, op.nbytes))
        for one in op.kernels:
            if (op.dtype, one) not in known:
                known[op.dtype, one] = kernel_seconds(device, op.dtype, one)
        launched = device.kernels.launch_s * sum(one.times for one in op.kernels)
        return max(sum(known[op.dtype, one] * one.times for one in op.kernels), launched)

    return seconds


def kernel_seconds(device: Device, dtype: str, kernel: Kernel) -> float:
    """What one kernel takes on a device; raises UsageError as ``seconds_on`` does."""
    if kernel.kind == "product":
        return float(product_seconds(device, dtype, *kernel.sizes))
    if kernel.kind == "stream":
        return float(stream_seconds(device, *kernel.sizes))
    rows, heads, queries, keys, width, causal, backward = kernel.sizes
    return float(
        attention_seconds(
            device,
            dtype,
            rows=rows,
            heads=heads,
            queries=queries,
            keys=keys,
            width=width,
            causal=bool(causal),
            backward=bool(backward),
        )
    )


def _check_rate(device: Device, op: Compute) -> None:
    if op.seconds is None and op.flops and op.dtype not in device.flops:
        raise UsageError(
            f"{op.name!r} computes in {op.dtype}, for which {device.name} has no rate: it has "
            f"{', '.join(device.flops)}"
        )


def _roofline(device: Device, op: Compute) -> float:
    if op.seconds is not None or not op.flops:
        return roofline_seconds(op, inf, device.memory_bandwidth)
    rate = device.flops[op.dtype] * device.efficiency
    return roofline_seconds(op, rate, device.memory_bandwidth)


def roofline_seconds(op: Compute, flops: float, memory_bandwidth: float) -> float:
    """The op's own seconds or, where it has none, its time on a device with these rates.

    The longer of computing, at ``flops`` FLOP/s, and of moving the op's bytes through the memory,
    at ``memory_bandwidth`` bytes/s (Williams, Waterman and Patterson 2009).
    """
    if op.seconds is not None:
        return op.seconds
    return max(op.flops / flops, op.nbytes / memory_bandwidth)
