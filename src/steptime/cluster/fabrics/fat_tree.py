"""A fat tree: leaf switches under a spine, or pods of leaves under a core, maybe oversubscribed.

The links between two heights of a switch are pooled into one, as ideal multipath routing would
use them (Leiserson, "Fat-Trees: Universal Networks for Hardware-Efficient Supercomputing", 1985).
"""

import numpy as np

from steptime.cluster.cluster import Fabric
from steptime.cluster.fabrics.kind import FabricKind
from steptime.cluster.fabrics.wiring import Ends, Level, tree
from steptime.section import Duplex, Rate, Section


def fat_tree(section: Section, ends: Ends) -> Fabric:
    """NICs under leaves.

    Keys: ``hosts_per_leaf``; ``latency`` of each link between switches; ``oversubscription`` of the
    leaves (default 1): the bandwidth of their NICs over that of their links up; for a third level
    ``leaves_per_pod`` and ``pod_oversubscription``, the pods' bandwidth from below over that up.
    The last leaf and pod may be partly empty.
    """
    hosts_per_leaf = section.count("hosts_per_leaf")
    latency = section.seconds("latency")
    leaf_up = widened(
        ends.rate, ends.per_host * hosts_per_leaf / section.number("oversubscription", 1.0), latency
    )
    leaf = ends.host_of // np.int32(hosts_per_leaf)
    leaves = int(leaf[-1]) + 1
    root = np.zeros(ends.count, np.int32)
    levels = [Level([f"leaf{n}" for n in range(leaves)], leaf, "leaf", leaf_up)]
    if section.has("leaves_per_pod"):
        leaves_per_pod = section.count("leaves_per_pod")
        share = leaves_per_pod / section.number("pod_oversubscription", 1.0)
        pod = leaf // np.int32(leaves_per_pod)
        names = [f"pod{n}" for n in range(int(pod[-1]) + 1)]
        levels.append(Level(names, pod, "pod", widened(leaf_up, share, latency)))
    levels.append(Level(["core" if len(levels) > 1 else "spine"], root, "root", None))
    return tree("fat_tree", ends.names(), "NIC", ends.rate, levels)


def widened(rate: Duplex, times: float, latency: float) -> Duplex:
    """Links of so many times the bandwidth, with a latency of their own."""
    return Duplex(
        Rate(rate.out.bandwidth * times, latency), Rate(rate.back.bandwidth * times, latency)
    )


FABRIC = FabricKind("fat_tree", between_nics=fat_tree)
