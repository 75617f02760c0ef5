"""Rails: the NICs of one number, of all hosts, share a switch, which the others do not touch.

NVIDIA, "DGX SuperPOD Reference Architecture": traffic between GPUs of one number stays on a rail.
"""

from dataclasses import replace

import numpy as np

from steptime.cluster.cluster import Fabric
from steptime.cluster.fabrics.fat_tree import widened
from steptime.cluster.fabrics.kind import FabricKind
from steptime.cluster.fabrics.wiring import Ends, Level, tree
from steptime.section import Section


def rail(section: Section, ends: Ends) -> Fabric:
    """NICs on the switch of their rail.

    Keys: ``across``: how a message gets to another rail, over a ``spine`` or by a hop inside the
    ``host`` to the device at that rail; ``hosts_per_leaf``: how many hosts share the switches of
    the rails (default: all), where more blocks of hosts are joined by the spine; where there is a
    spine ``latency`` of the links to it and ``oversubscription`` of the switches (default 1).
    """
    across = section.choice("across", ("spine", "host"))
    hosts_per_leaf = min(section.count("hosts_per_leaf", ends.hosts), ends.hosts)
    block = ends.host_of // np.int32(hosts_per_leaf)
    blocks = int(block[-1]) + 1
    rails = np.tile(np.arange(ends.per_host, dtype=np.int32), ends.hosts)
    over = block * np.int32(ends.per_host) + rails
    names = [f"rail{n}" for n in range(ends.per_host)]
    if blocks > 1:
        names = [f"block{b}.{name}" for b in range(blocks) for name in names]
    root = np.zeros(ends.count, np.int32)
    if across == "host" and blocks == 1:
        levels = [Level(names, over, "rail", None)]
    else:
        share = hosts_per_leaf / section.number("oversubscription", 1.0)
        up = widened(ends.rate, share, section.seconds("latency"))
        levels = [Level(names, over, "rail", up), Level(["spine"], root, "spine", None)]
    return replace(tree("rail", ends.names(), "NIC", ends.rate, levels), hop=across == "host")


FABRIC = FabricKind("rail", between_nics=rail)
