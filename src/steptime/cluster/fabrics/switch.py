"""A switch: every end has a link each way to it, and it never limits what passes through it."""

import numpy as np

from steptime.cluster.cluster import Fabric
from steptime.cluster.fabrics.kind import FabricKind
from steptime.cluster.fabrics.wiring import Ends, Level, tree
from steptime.section import Section


def inside_switch(section: Section, devices: int) -> Fabric:
    """Devices on a switch of their host, such as NVSwitch.

    Keys: ``name`` of the switch; ``bandwidth`` and ``latency`` of each device's link.
    """
    name = section.text("name", "switch")
    names = [f"device{device}" for device in range(devices)]
    level = Level([name], np.zeros(devices, np.int32), name, None)
    return tree("switch", names, "device", section.duplex(), [level])


def network_switch(section: Section, ends: Ends) -> Fabric:
    """NICs on one switch. Key: its ``name``."""
    name = section.text("name", "switch")
    level = Level([name], np.zeros(ends.count, np.int32), name, None)
    return tree("switch", ends.names(), "NIC", ends.rate, [level])


FABRIC = FabricKind("switch", inside=inside_switch, between_nics=network_switch)
