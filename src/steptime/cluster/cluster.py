"""Cluster: hosts, devices, directed links and routes, and which device each rank is on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steptime.errors import UsageError

Ints: TypeAlias = NDArray[np.int32]
Floats: TypeAlias = NDArray[np.float64]

Router: TypeAlias = Callable[[Ints, Ints], Ints]
"""Paths from devices to devices, both of shape (n,): link numbers, shape (n, hops).

A path that is shorter than the longest ends in NO_LINK; one from a device to itself has no link.
"""

NO_LINK = -1


@dataclass(frozen=True, kw_only=True)
class Device:
    """One place for a rank: a GPU, or the part of a host that one rank computes with.

    ``flops``: peak FLOP/s by dtype; ``efficiency``: the fraction of it that large matrix products
    reach. ``memory`` in bytes, ``memory_bandwidth`` and ``reduction`` in bytes/s: at
    ``reduction`` a rank adds up what has arrived, infinite where that hides behind the arrival.
    """

    name: str
    flops: Mapping[str, float]
    memory: float
    memory_bandwidth: float
    efficiency: float = 1.0
    reduction: float = np.inf


@dataclass(frozen=True, eq=False)
class Links:
    """Directed links: names, bandwidths in bytes/s (inf: never a limit) and latencies in seconds.

    Each is of shape (links,).
    """

    names: tuple[str, ...]
    bandwidth: Floats
    latency: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class Cluster:
    """Devices on hosts, and the links between them.

    ``host_of``: the host of each device, shape (devices,). ``speed``: how fast each computes
    relative to ``device``, shape (devices,). ``order``: the devices in the order in which ranks
    take them, shape (places,). ``source`` says where the figures come from.
    """

    name: str
    title: str
    source: str
    device: Device
    host_of: Ints
    speed: Floats
    links: Links
    route: Router
    order: Ints

    @property
    def devices(self) -> int:
        """How many devices there are."""
        return self.host_of.size

    @property
    def hosts(self) -> int:
        """How many hosts there are."""
        return int(self.host_of.max()) + 1

    def placed(self, ranks: int) -> Ints:
        """The device of each rank, shape (ranks,).

        Raises UsageError when there are more ranks than places.
        """
        if ranks > self.order.size:
            raise UsageError(
                f"{ranks} ranks do not fit on {self.name}, which has {self.order.size} places for "
                "them: ask for fewer ranks or name a larger cluster"
            )
        return self.order[:ranks]

    def paths(self, src: ArrayLike, dst: ArrayLike) -> Ints:
        """The links from each device of ``src`` to that of ``dst``, as Router has them."""
        return self.route(np.asarray(src, np.int32), np.asarray(dst, np.int32))
