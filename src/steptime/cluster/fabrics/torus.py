"""A torus: each host is joined to the next and the previous one along every dimension.

Messages go along the first dimension first, then the next, each the shorter way round, and
forward where both are as long (dimension-order routing: Dally and Seitz, 1987).
"""

from math import prod

import numpy as np

from steptime.arrays import Ints
from steptime.cluster.cluster import Fabric
from steptime.cluster.fabrics.kind import FabricKind
from steptime.cluster.fabrics.wiring import Wires, host_names, where, wired
from steptime.section import Section


def torus(section: Section, count: int) -> Fabric:
    """So many hosts with links of their own.

    Keys: ``dimensions``, such as [4, 4, 2], of which the last varies fastest over the hosts;
    ``bandwidth`` and ``latency`` of a link, one each way.
    """
    sizes = section.raw("dimensions")
    if not (isinstance(sizes, list) and all(type(size) is int and size > 0 for size in sizes)):
        section.refuse("dimensions", f"is {sizes!r}: it must be a list such as [4, 4, 2]")
    if prod(sizes) != count:
        section.refuse("dimensions", f"hold {prod(sizes)} hosts, and there are {count}")
    rate = section.one_way()
    hosts = np.arange(count, dtype=np.int32)
    wires: list[Wires] = []
    firsts = []  # of each dimension the first link forward and the first one backward
    for place, size in enumerate(sizes):
        stride = prod(sizes[place + 1 :])
        at = hosts // stride % size
        firsts.append((len(wires) * count, (len(wires) + (size > 2)) * count))
        for by in (1, -1)[: (size > 1) + (size > 2)]:  # of two, both neighbours are the same one
            label = f"dimension {place} {'forward' if by > 0 else 'backward'}"
            wires.append(Wires(label, hosts, hosts + ((at + by) % size - at) * stride, rate))

    def route(src: Ints, dst: Ints) -> Ints:
        path, here = [np.full(src.size, -1, np.int32)], src.astype(np.int32)
        for place, size in enumerate(sizes):
            stride = prod(sizes[place + 1 :])
            ahead = (dst // stride - here // stride) % size
            forward = 2 * ahead <= size
            steps = np.where(forward, ahead, size - ahead)
            first = np.where(forward, *firsts[place])
            for step in range(int(steps.max(initial=0))):
                moving = step < steps
                path.append(where(moving, first + here))
                at = here // stride % size
                then = here + ((at + np.where(forward, 1, -1)) % size - at) * stride
                here = np.where(moving, then, here).astype(np.int32)
        return np.stack(path, axis=1)

    return wired("torus", count, host_names(count), wires, route)


FABRIC = FabricKind("torus", between_hosts=torus)
