"""A bus: one medium that all devices of a host share, as ranks of a CPU host share its memory."""

import numpy as np

from steptime.arrays import Ints
from steptime.cluster.cluster import Fabric
from steptime.cluster.fabrics.kind import FabricKind
from steptime.cluster.fabrics.wiring import Wires, wired
from steptime.section import Section

_BUS = 0  # its link is the first


def inside_bus(section: Section, devices: int) -> Fabric:
    """Devices on a medium.

    Keys: ``bandwidth`` of all messages together and ``latency`` of each; ``device`` with the
    ``bandwidth`` and ``latency`` of what one device can put on it or take from it, if that is a
    limit.
    """
    everyone = np.arange(devices, dtype=np.int32)
    entry, exit_ = devices, devices + 1
    names = [*(f"device{device}" for device in everyone), "bus in", "bus out"]
    wires = [Wires("bus", entry, exit_, section.one_way())]
    if not section.has("device"):
        joints = [(device, entry) for device in range(devices)]
        joints += [(exit_, device) for device in range(devices)]
        return wired("bus", devices, names, wires, _only_the_bus, joints=joints)
    own = section.section("device").duplex()
    wires.append(Wires("device up", everyone, np.full(devices, entry), own.out))
    wires.append(Wires("device down", np.full(devices, exit_), everyone, own.back))

    def route(src: Ints, dst: Ints) -> Ints:
        return np.stack([src + 1, np.full_like(src, _BUS), dst + np.int32(1 + devices)], axis=1)

    return wired("bus", devices, names, wires, route)


def _only_the_bus(src: Ints, _: Ints) -> Ints:
    return np.full((src.size, 1), _BUS, np.int32)


FABRIC = FabricKind("bus", inside=inside_bus)
