"""What the devices of this machine can compute, told before any rank starts."""

from collections.abc import Sequence

from steptime.errors import UsageError
from steptime.topo.gpus import Gpu, read_gpus
from steptime.workloads.precision import element_dtype

_FIRST_WITH_BF16 = 80
"""The compute capability of Ampere, whose units multiply bf16; before it that is emulated."""


def check_precision(precision: str, backend: str) -> None:
    """Raise UsageError where a GPU that ranks would train on lacks the precision.

    A CPU has every one, if slowly. GPUs that NVML does not show are not judged.
    """
    if backend == "nccl":
        check_gpus(precision, read_gpus()[0])


def check_gpus(precision: str, gpus: Sequence[Gpu]) -> None:
    """Raise UsageError, naming the GPU and what it has, where one lacks the precision."""
    if element_dtype(precision) != "bf16":
        return
    for number, gpu in enumerate(gpus):
        if gpu.sm < _FIRST_WITH_BF16:
            raise UsageError(
                f"GPU {number}, {gpu.name}, multiplies no bf16, in which --precision {precision} "
                "computes: choose --precision fp16, or fp32"
            )
