"""PCIe: devices under PCIe switches, host bridges and CPU sockets, so that each way has its price.

Where two devices meet is the mark that ``nvidia-smi topo -m`` gives their pair: PIX at a switch,
PXB at an upper switch, PHB at a host bridge, NODE within a socket, SYS between sockets.
"""

from dataclasses import dataclass, replace

import numpy as np

from steptime.cluster.cluster import Fabric
from steptime.cluster.fabrics.kind import FabricKind
from steptime.cluster.fabrics.wiring import Level, divided, tree
from steptime.section import Duplex, Section

_HEIGHTS = ("switch", "upper_switch", "bridge", "socket")


@dataclass(frozen=True)
class _Height:
    """Switches of one height, each over so many devices, with a link up but for the root."""

    name: str
    devices: int
    up: Duplex | None


def inside_pcie(section: Section, devices: int) -> Fabric:
    """Devices on PCIe.

    Keys: ``bandwidth`` and ``latency`` of each device's link; the tables ``switch``,
    ``upper_switch``, ``bridge`` and ``socket``, of which any may be left out, each with the
    ``devices`` below one of them, and ``bandwidth`` and ``latency`` of its link up, which the one
    that is over all devices has not. What leaves the host takes the link of its device too.
    """
    rate = section.duplex()
    heights = _heights(section, devices)
    everyone = np.arange(devices, dtype=np.int32)
    levels = []
    for height in heights:
        over = everyone // np.int32(height.devices)
        name = height.name.replace("_", " ")
        count = devices // height.devices
        names = [f"{name}{n}" for n in range(count)] if count > 1 else [name]
        levels.append(Level(names, over, name, height.up))
    names = [f"device{device}" for device in range(devices)]
    built = tree("pcie", names, "device", rate, levels)
    return replace(built, leave=everyone, arrive=everyone + np.int32(devices))


def _heights(section: Section, devices: int) -> list[_Height]:
    heights: list[_Height] = []
    for name in filter(section.has, _HEIGHTS):
        table = section.section(name)
        below = divided(table, "devices", devices, "devices of the host")
        lower = heights[-1].devices if heights else 1
        if below % lower:
            table.refuse("devices", f"is {below}, no multiple of the {lower} below it")
        if heights and heights[-1].up is None:
            table.refuse("", f"is above a {heights[-1].name} that is over all devices: drop it")
        heights.append(_Height(name, below, table.duplex() if below < devices else None))
    if not heights or heights[-1].up is not None:
        roots = {"": "bridge", "switch": "bridge", "upper_switch": "bridge", "bridge": "socket"}
        heights.append(
            _Height(roots.get(heights[-1].name if heights else "", "sockets"), devices, None)
        )
    return heights


FABRIC = FabricKind("pcie", inside=inside_pcie)
