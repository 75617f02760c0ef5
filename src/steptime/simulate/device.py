"""Device time: what an op takes on a device, by the roofline model."""

from math import inf

from steptime.cluster import Device
from steptime.errors import UsageError
from steptime.program import Compute, Op


def seconds_on(device: Device, op: Op) -> float:
    """How long a Compute takes on a device of speed 1; 0 for any other op.

    It computes at ``efficiency`` times the device's peak rate for its dtype.

    Raises UsageError when the device has no rate for the dtype; it lists those that it has.
    """
    if not isinstance(op, Compute):
        return 0.0
    if op.seconds is not None or not op.flops:
        return roofline_seconds(op, inf, device.memory_bandwidth)
    if op.dtype not in device.flops:
        raise UsageError(
            f"{op.name!r} computes in {op.dtype}, for which {device.name} has no rate: it has "
            f"{', '.join(device.flops)}"
        )
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
