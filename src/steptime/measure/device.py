"""What one rank's own device does: matrix products, copies and additions, timed while all work."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from steptime.measure.carrier import Carrier
from steptime.measure.timing import Effort, back_to_back
from steptime.world import room

_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_COPIED = 64 << 20
_ENOUGH_S = 0.2
"""How long each is measured at least."""


@dataclass(frozen=True)
class DeviceRates:
    """Rates of a rank's device, the median over the ranks, while all of them work.

    ``flops``: FLOP/s of a large matrix product by dtype; ``memory_bandwidth``: bytes/s read and
    written by a copy; ``reduction``: bytes/s added to what is there; ``memory`` in bytes, of the
    smallest device. ``spread``: the fastest rank's matrix product over the slowest's.
    """

    name: str
    flops: dict[str, float]
    memory_bandwidth: float
    reduction: float
    memory: int
    spread: float


def measure_device(carrier: Carrier, backend: str, ranks_here: int) -> DeviceRates:
    """Measure the device of every rank at once; every rank returns the same.

    On ``backend`` nccl that is its GPU, else its share of the CPU. ``ranks_here``: how many ranks
    this host holds.
    """
    gpu = backend == "nccl"
    device = torch.device("cuda", torch.cuda.current_device()) if gpu else torch.device("cpu")
    flops, spread = {}, 1.0
    for name in _dtypes(device):
        rates = _product(carrier, device, _DTYPES[name])
        flops[name] = float(np.median(rates))
        spread = max(spread, float(rates.max() / rates.min()))
    one, other = (torch.ones(_COPIED // 4, device=device) for _ in range(2))
    copied = 2 * _COPIED / _seconds(carrier, lambda: other.copy_(one))
    added = _COPIED / _seconds(carrier, lambda: other.add_(one))
    memory = carrier.gather(np.array(float(_memory(device, ranks_here))))
    return DeviceRates(
        name=_name(device),
        flops=flops,
        memory_bandwidth=float(np.median(copied)),
        reduction=float(np.median(added)),
        memory=int(memory.min()),
        spread=spread,
    )


def _dtypes(device: torch.device) -> list[str]:
    return ["fp32", "bf16", "fp16"] if device.type == "cuda" else ["fp32", "bf16"]


def _product(carrier: Carrier, device: torch.device, dtype: torch.dtype) -> np.ndarray:
    """FLOP/s of each rank in a square matrix product, shape (ranks,)."""
    size = 8192 if device.type == "cuda" else 1024
    a, b = (torch.ones(size, size, dtype=dtype, device=device) for _ in range(2))
    out = torch.empty_like(a)
    return 2 * size**3 / _seconds(carrier, lambda: torch.mm(a, b, out=out))


def _seconds(carrier: Carrier, run: Callable[[], object]) -> np.ndarray:
    """Seconds of one run on each rank, shape (ranks,)."""

    def once() -> None:
        run()

    first = float(back_to_back(carrier, once, Effort(1, 1)).max())
    return back_to_back(carrier, once, Effort(1, int(np.clip(_ENOUGH_S / first, 2, 1000))))


def _memory(device: torch.device, ranks_here: int) -> int:
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    return room.available_bytes() // ranks_here


def _name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"{threads} thread{'s' if threads > 1 else ''} of a CPU"
