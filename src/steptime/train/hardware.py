"""Defaults that depend on the machine: the precision, and whether to compile."""

import os
import shutil
from pathlib import Path

import torch

from steptime.workloads.models import Transformer
from steptime.workloads.precision import DtypeName

_WORTH_COMPILING = 50_000_000  # parameters from which compiling pays for itself within minutes
_BF16_FLAGS = ("avx512_bf16", "amx_bf16", "bf16")  # x86, x86, Arm


def native_precision(device: torch.device) -> DtypeName:
    """bf16 where the device multiplies it natively, else fp32."""
    if device.type == "cuda":
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp32"
    try:
        flags = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return "fp32"
    return "bf16" if flags.intersection(_BF16_FLAGS) else "fp32"


def worth_compiling(config: Transformer, device: torch.device) -> bool:
    """Whether the model is large enough for torch.compile, and a compiler is installed."""
    compiler = device.type == "cuda" or shutil.which(os.environ.get("CXX", "g++")) is not None
    return compiler and config.padded().parameters >= _WORTH_COMPILING
