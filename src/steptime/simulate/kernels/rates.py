"""What kernels of a dtype move and at what peak a device computes them."""

from steptime.cluster import Device
from steptime.errors import UsageError
from steptime.nearest import mend

PARTIAL_BYTES = 8
"""What adding up a split product moves for each result of each part: fp32, written and read."""

_OPERANDS = {"fp64": 8.0, "fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0}
_FP4 = 0.5 + 1 / 16  # and a scale of a byte for 16 elements, as NVFP4


def operand_bytes(dtype: str) -> float:
    """Bytes of an element that a product reads."""
    return _OPERANDS.get(dtype, _FP4 if dtype == "fp4" else 2.0)


def result_bytes(dtype: str) -> float:
    """Bytes of an element that a product writes: 16-bit below 32."""
    return max(operand_bytes(dtype), 2.0)


def peak(device: Device, dtype: str) -> float:
    """The device's peak rate for a dtype, FLOP/s; raises UsageError where it has none."""
    try:
        return device.flops[dtype]
    except KeyError:
        raise UsageError(
            f"{device.name} has no rate for {dtype}: {mend(dtype, device.flops)}"
        ) from None
