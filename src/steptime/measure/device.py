"""The rates of one rank's device: matrix products, copies and additions, timed while all work."""

import numpy as np
import torch

from steptime import host_memory as room
from steptime.measure.core import COPIED, WIDTH, DeviceRates, name_of, seconds_of
from steptime.measure.transport import BenchTransport

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def measure_device(transport: BenchTransport, backend: str, ranks_here: int) -> DeviceRates:
    """Measure the device of every rank at once; every rank returns the same.

    On ``backend`` nccl that is its GPU, else its share of the CPU. ``ranks_here``: how many ranks
    this host holds.
    """
    gpu = backend == "nccl"
    device = torch.device("cuda", torch.cuda.current_device()) if gpu else torch.device("cpu")
    flops, spread = {}, 1.0
    for name in ("fp32", "bf16", *(["fp16"] if gpu else [])):
        rates = _product(transport, device, _DTYPES[name])
        flops[name] = float(np.median(rates))
        spread = max(spread, float(rates.max() / rates.min()))
    one, other = (torch.ones(COPIED // 4, device=device) for _ in range(2))
    copied = 2 * COPIED / seconds_of(transport, lambda: other.copy_(one))
    added = COPIED / seconds_of(transport, lambda: other.add_(one))
    memory = transport.gather(np.array(float(_memory(device, ranks_here))))
    return DeviceRates(
        name=_name(device),
        flops=flops,
        memory_bandwidth=float(np.median(copied)),
        reduction=float(np.median(added)),
        memory=int(memory.min()),
        spread=spread,
    )


def _product(transport: BenchTransport, device: torch.device, dtype: torch.dtype) -> np.ndarray:
    """FLOP/s of each rank in a square matrix product, shape (ranks,)."""
    size = 8192 if device.type == "cuda" else WIDTH
    # A GPU that has nothing to switch needs less power, and so runs faster than on real numbers.
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    out = torch.empty_like(a)
    return 2 * size**3 / seconds_of(transport, lambda: torch.mm(a, b, out=out))


def _memory(device: torch.device, ranks_here: int) -> int:
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return room.available_bytes() // ranks_here


def _name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return name_of(torch.get_num_threads())
