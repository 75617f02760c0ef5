"""Attention: scores and what they weigh, fused in one kernel or with scores in memory.

A fused kernel gives a block of queries of one head to a unit, which passes over its keys. So it
takes a whole number of waves; a block takes the time of some more keys to begin and to end; and
the softmax takes as long as the products of so many more columns of a head.
"""

import numpy as np
from numpy.typing import ArrayLike

from steptime.arrays import Floats
from steptime.cluster import Device, Kernels
from steptime.cluster.kernel_parameters import AttentionRates
from steptime.errors import UsageError
from steptime.nearest import mend
from steptime.simulate.kernels.product import product_seconds
from steptime.simulate.kernels.rates import peak
from steptime.simulate.kernels.stream import stream_seconds

_BACKWARD = 2.5  # five products for the two of forward, as flash-attention counts
_BLOCK = 128  # queries
_STEP = 32  # a head's columns, padded to a multiple of it
_WIDTH = 128  # of a head for which rates are given
_UNFUSED = 0.5  # of the peak, on a device without parameters


def attention_seconds(
    device: Device,
    dtype: str,
    *,
    rows: ArrayLike,
    heads: ArrayLike,
    queries: ArrayLike,
    keys: ArrayLike,
    width: ArrayLike,
    causal: bool = True,
    backward: bool = False,
    kernel: str | None = None,
) -> Floats:
    """What fused attention of ``rows`` rows takes, in seconds, its projections not counted.

    ``queries`` and ``keys``: tokens of a row; ``width``: of a head. ``kernel``: a generation of
    kernels that the device has parameters of, such as flash2; the usual one without. A causal row
    of more queries than keys attends to a window of so many.

    Raises UsageError where the device has no rate for ``dtype`` or no such kernel.
    """
    sizes = (rows, heads, queries, keys, width)
    rows, heads, queries, keys, width = np.broadcast_arrays(
        *(np.asarray(one, np.float64) for one in sizes)
    )
    met = _keys_met(queries, keys) if causal else keys  # by a query, on average
    factor = _BACKWARD if backward else 1.0
    rate = peak(device, dtype)
    if device.kernels is None:
        return np.asarray(4 * rows * heads * queries * met * width * factor / (_UNFUSED * rate))
    rates = _rates(device, device.kernels, kernel)
    share, lead = rates.forward, rates.lead_forward
    if backward:
        share, lead = rates.backward, rates.lead_backward
    padded = np.ceil(width / _STEP) * _STEP
    full = rate * share * (_WIDTH + rates.softmax) / _WIDTH  # with no softmax to compute
    units = device.kernels.units
    of_key = 4 * _BLOCK * (padded + rates.softmax) * factor * units / full  # of one block
    blocks = rows * heads * np.ceil(queries / _BLOCK)
    even = blocks / units * (met + lead + _BLOCK)  # half a block that is masked, and masking
    longest = np.minimum(keys, 2 * met) + lead
    waves = np.maximum(even, longest) if causal else np.ceil(blocks / units) * (met + lead)
    return np.asarray(device.kernels.start_s + waves * of_key)


def unfused_attention_seconds(
    device: Device,
    dtype: str,
    *,
    rows: ArrayLike,
    heads: ArrayLike,
    queries: ArrayLike,
    keys: ArrayLike,
    width: ArrayLike,
    score_bytes: float,
    backward: bool = False,
) -> Floats:
    """What attention takes whose scores pass through the memory, in seconds.

    Batched products, and between them what moves ``score_bytes`` of every score: its softmax, mask
    and dropout. Backward has twice of both. The causal mask saves nothing. Sizes as of
    ``attention_seconds``, which says what is raised.
    """
    sizes = (rows, heads, queries, keys, width)
    rows, heads, queries, keys, width = np.broadcast_arrays(
        *(np.asarray(one, np.float64) for one in sizes)
    )
    batch = rows * heads
    scores = product_seconds(device, dtype, queries, keys, width, batch)
    weighed = product_seconds(device, dtype, queries, width, keys, batch)
    passes = stream_seconds(device, batch * queries * keys * score_bytes)
    return np.asarray((scores + weighed + passes) * (2 if backward else 1))


def _keys_met(queries: Floats, keys: Floats) -> Floats:
    """How many keys a causal query attends to, on average.

    Half of them; where there are fewer keys than queries, they are a window's: all but at first.
    """
    within = keys * (1 - 0.5 * keys / np.maximum(queries, 1))
    return np.where(keys < queries, within, keys / 2)


def _rates(device: Device, kernels: Kernels, kernel: str | None) -> AttentionRates:
    names = list(kernels.attention)
    name = kernel or names[0]
    if name not in kernels.attention:
        raise UsageError(f"{device.name} has no attention kernel {name!r}: {mend(name, names)}")
    return kernels.attention[name]
