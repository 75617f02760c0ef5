"""Matrix products: tiles in waves, operands from the shared cache, power and memory.

A product is cut into tiles; each unit of the device computes one at a time, so that it takes a
whole number of waves (tile and wave quantisation). A tile's main loop takes as long as its
arithmetic or as feeding it, whichever is longer: small tiles compute less with what they are fed.
Where there are few tiles, k is split among several units, whose results are then added up. Of all
tiles and splits the fastest counts, as a library chooses.
"""

import numpy as np
from numpy.typing import ArrayLike

from steptime.arrays import Floats
from steptime.cluster import Device, Kernels
from steptime.simulate.kernels.rates import PARTIAL_BYTES, operand_bytes, peak, result_bytes

_TILES = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64))
_SPLITS = (2, 4, 8, 16)
_FEW = 256 * 128  # results a unit: a wave of the largest tiles
_AT_ONCE = 16384  # kernels, so that what is computed on the way stays in a core's cache
_ALIGNMENT = 16  # bytes
_OVERLAP = 3.0  # how well a product hides moving behind computing: infinite, the roofline's ceiling


def product_seconds(
    device: Device, dtype: str, m: ArrayLike, n: ArrayLike, k: ArrayLike, batch: ArrayLike = 1
) -> Floats:
    """What ``batch`` products of (m, k) with (k, n) in one kernel take, in seconds.

    Raises UsageError where the device has no rate for ``dtype``.
    """
    rate = peak(device, dtype)
    sizes = np.broadcast_arrays(*(np.asarray(one, np.float64) for one in (m, n, k, batch)))
    flat = np.stack([one.ravel() for one in sizes])  # (4, products)
    if device.kernels is None:
        computing, moving = _ideal(flat, dtype, rate * device.efficiency, device.memory_bandwidth)
        return np.maximum(computing, moving).reshape(sizes[0].shape)
    found = np.empty(flat.shape[1])
    for start in range(0, found.size, _AT_ONCE):
        some = slice(start, start + _AT_ONCE)
        found[some] = _priced(device, device.kernels, dtype, rate, flat[:, some])
    return found.reshape(sizes[0].shape)


def _ideal(sizes: Floats, dtype: str, rate: float, bandwidth: float) -> tuple[Floats, Floats]:
    """Seconds of computing at a rate, and of moving each operand and result once."""
    m, n, k, batch = sizes
    read = (m * k + k * n) * operand_bytes(dtype) + m * n * result_bytes(dtype)
    return 2 * batch * m * n * k / rate, batch * read / bandwidth


def _priced(device: Device, kernels: Kernels, dtype: str, rate: float, sizes: Floats) -> Floats:
    """Seconds of each product; ``sizes``: of shape (4, products)."""
    m, n, k, batch = sizes
    width, bandwidth = operand_bytes(dtype), kernels.reach * device.memory_bandwidth
    held = rate * kernels.sustained.get(dtype, kernels.rate)
    computing, moving = _ideal(sizes, dtype, held, bandwidth)
    results = batch * m * n
    written = results * (kernels.epilogue * result_bytes(dtype) / bandwidth)
    loop = _loops(kernels, rate, width, sizes) + written
    few = np.flatnonzero(results < _FEW * kernels.units)  # too few tiles: units share k
    for split in _SPLITS if few.size else ():
        parts = sizes[:, few] * np.array([[1], [1], [1 / split], [split]])
        added = written[few] + results[few] * (split * PARTIAL_BYTES / bandwidth)
        loop[few] = np.minimum(loop[few], _loops(kernels, rate, width, parts) + added)
    bad = ((n * width) % _ALIGNMENT != 0) | ((k * width) % _ALIGNMENT != 0)
    loop = np.maximum(np.where(bad, loop / kernels.unaligned, loop), computing)
    together = (loop**_OVERLAP + moving**_OVERLAP) ** (1 / _OVERLAP)
    return np.asarray(kernels.start_s + together)


def _loops(kernels: Kernels, rate: float, width: float, sizes: Floats) -> Floats:
    """What the main loops of all waves take, with the tile for which that is least."""
    m, n, k, batch = sizes
    least = np.full_like(m, np.inf)
    for tile in _TILES:
        blocks = np.ceil(m * (1 / tile[0])) * np.ceil(n * (1 / tile[1])) * batch
        waves = np.ceil(blocks * (1 / kernels.units))
        np.minimum(least, waves * _seconds_a_k(kernels, rate, width, *tile), out=least)
    return np.asarray(least * k)


def _seconds_a_k(kernels: Kernels, rate: float, width: float, rows: int, columns: int) -> float:
    """What a step of k takes while every unit works at a tile of ``rows`` by ``columns``."""
    computed = 2 * rows * columns / (kernels.rate * rate)
    fed = (rows + columns) * width / kernels.feed
    return kernels.units * max(computed, fed)
