"""Kernels: what an op of computing launches on a device, by the sizes that tell its time."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Literal, TypeAlias, cast

from steptime.errors import UsageError

KernelKind: TypeAlias = Literal["product", "attention", "stream"]

SIZES: Mapping[KernelKind, tuple[str, ...]] = {
    "product": ("m", "n", "k", "batch"),
    "attention": ("rows", "heads", "queries", "keys", "width", "causal", "backward"),
    "stream": ("nbytes",),
}
"""What the sizes of each kind of kernel are: those of ``batch`` products of (m, k) with (k, n); of
fused attention, causal or not and forward or backward as 1 or 0; bytes through the memory."""


@dataclass(frozen=True)
class Kernel:
    """``times`` kernels of one kind and these ``sizes``, in the order of SIZES."""

    kind: KernelKind
    sizes: tuple[float, ...]
    times: float = 1.0


def check_kernel(kernel: Kernel) -> None:
    """Raise UsageError where a kernel has not the sizes of its kind, or one that cannot be."""
    names = SIZES[kernel.kind]
    if len(kernel.sizes) != len(names):
        raise UsageError(
            f"a kernel has {len(kernel.sizes)} sizes: one of kind {kernel.kind} has "
            f"{', '.join(names)}"
        )
    for what, value in zip((*names, "times"), (*kernel.sizes, kernel.times), strict=True):
        if not isfinite(value) or value < 0:
            raise UsageError(
                f"a kernel of kind {kernel.kind} has {what} of {value}: it must be a number of at "
                "least 0"
            )


def kernel_text(kernel: Kernel) -> str:
    """A kernel in words: "product 1 4096 1024 1024 1", its times first."""
    return " ".join((kernel.kind, *(f"{one:.17g}" for one in (kernel.times, *kernel.sizes))))


def kernel_of(text: str) -> Kernel:
    """The kernel of such words; raises UsageError where they are none."""
    kind, *numbers = text.split()
    try:
        times, *sizes = map(float, numbers)
    except ValueError:
        raise UsageError(f"{text!r} is no kernel: write its kind, times and sizes") from None
    if kind not in SIZES:
        raise UsageError(f"{text!r} is no kernel: it must begin with {', '.join(SIZES)}")
    return Kernel(cast("KernelKind", kind), tuple(sizes), times)
