"""Kernels: what a matrix product, attention and a pass through memory take on a device.

Every function takes arrays, one entry a kernel, and returns seconds of the same shape. None counts
the time in which the host launches a kernel. A device with ``kernels`` is priced by these
parameters, any other by the roofline.
"""

from steptime.simulate.kernels.attention import attention_seconds, unfused_attention_seconds
from steptime.simulate.kernels.product import product_seconds
from steptime.simulate.kernels.stream import stream_seconds

__all__ = [
    "attention_seconds",
    "product_seconds",
    "stream_seconds",
    "unfused_attention_seconds",
]
