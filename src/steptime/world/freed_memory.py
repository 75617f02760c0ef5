"""Keeping freed memory in the process, so that a step's tensors are not paged in anew."""

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4  # mallopt(3)
_NEVER = 2**31 - 1


def keep_freed_memory() -> None:
    """Have malloc reuse large blocks instead of returning them to the kernel at every free.

    By default glibc maps a block of 32 MiB or more afresh each time, and the kernel zeroes it page
    by page: a fifth of a training step on a CPU. In return the process keeps its peak memory. Does
    nothing where the C library has no mallopt.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt:
        mallopt(_M_MMAP_MAX, 0)
        mallopt(_M_TRIM_THRESHOLD, _NEVER)
