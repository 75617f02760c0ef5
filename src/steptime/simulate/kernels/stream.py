"""Operations that the memory bounds."""

import numpy as np
from numpy.typing import ArrayLike

from steptime.arrays import Floats
from steptime.cluster import Device

_REACH = 0.85  # of the bandwidth, on a device without parameters


def stream_seconds(device: Device, nbytes: ArrayLike) -> Floats:
    """What a kernel that moves so many bytes through the memory takes, in seconds.

    It takes some time to start, so that small ones reach a small part of the bandwidth; one that
    moves nothing takes none.
    """
    moved = np.asarray(nbytes, np.float64)
    kernels = device.kernels
    if kernels is None:
        return np.asarray(moved / (_REACH * device.memory_bandwidth))
    seconds = moved / (kernels.reach * device.memory_bandwidth)
    return np.asarray(np.where(moved > 0, kernels.start_s + seconds, 0.0))
