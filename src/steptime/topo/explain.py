"""Explaining the marks of a matrix: what each path means for training."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from steptime.arrays import Floats
from steptime.topo.marks import Mark, distance, mark_named
from steptime.topo.matrix import span
from steptime.topo.rates import assumed
from steptime.topo.ring import Ring
from steptime.topo.topology import Kind, Topology


@dataclass(frozen=True)
class Explained:
    """A mark of a matrix explained.

    ``least`` and ``most``: bytes/s each way over such paths, computed; inf where nothing limits
    them.
    """

    mark: str
    kind: Mark
    pairs: int
    least: float
    most: float

    @property
    def meaning(self) -> str:
        """The mark's kind of path, in words."""
        return "1 NVLink" if self.mark == "NV1" else self.kind.meaning.replace("#", self.mark[2:])

    @property
    def rate(self) -> str:
        """``12 to 24 GB/s``, computed; empty where nothing limits it."""
        low, high = (f"{rate / 1e9:.3g}" for rate in (self.least, self.most))
        if self.least == float("inf"):
            return ""
        return f"{low} GB/s" if low == high else f"{low} to {high} GB/s"


def explained(topology: Topology, rates: Floats) -> list[Explained]:
    """Each mark that occurs in the matrix, from near to far. ``rates``: those of ``expected``."""
    cells: dict[str, list[float]] = {}
    for a, b in zip(*np.triu_indices(len(topology.parts), 1), strict=True):
        cells.setdefault(topology.marks[a][b], []).append(float(rates[a, b]))
    return [
        Explained(mark, mark_named(mark), len(found), min(found), max(found))
        for mark, found in sorted(cells.items(), key=lambda item: distance(item[0]))
    ]


def basis(topology: Topology) -> str:
    """What the bandwidths are computed from, as a sentence."""
    guess = assumed(topology).words
    return (
        "Bandwidth each way, of one transfer alone: computed from NCCL's table of links"
        + (f", assuming {guess}" if guess else "")
        + "."
    )


def findings(topology: Topology, ring: Ring | None) -> Iterator[str]:
    """Sentences about this host: its best ring, its GPUs' peers and its NICs."""
    if ring:
        yield _of_ring(topology, ring)
    else:
        yield _of_cpus(topology)
    yield from _of_islands(topology)
    yield from _of_nics(topology)


def _of_ring(topology: Topology, ring: Ring) -> str:
    a, b = (topology.parts[n].name for n in ring.slowest)
    mark = topology.marks[ring.slowest[0]][ring.slowest[1]]
    gigabytes = f"{ring.rate / 1e9:.3g} GB/s"
    bound = f"a ring's busbw stays below {gigabytes} (computed)"
    if len(ring.order) == 2 or ring.even:
        return f"{mark} joins {'all' if ring.order[2:] else 'both'} GPUs alike: {bound}."
    order = " ".join(topology.parts[n].name.removeprefix("GPU") for n in ring.order)
    return (
        f"A ring over all GPUs must cross {mark}, as from {a} to {b} (* in the matrix): {bound}. "
        f"The best ring: {order}."
    )


def _of_cpus(topology: Topology) -> str:
    nodes = len(topology.of_kind(Kind.CPU))
    if nodes > 1:
        return (
            f"{nodes} NUMA nodes: give each rank the cores and the memory of one (numactl "
            "--cpunodebind --membind), or its traffic crosses between them."
        )
    return "One device and one NUMA node: no rank is further from another than the next."


def _of_islands(topology: Topology) -> Iterator[str]:
    """Sentences on the groups of GPUs that NVLinks join, where these do not join all."""
    gpus = topology.of_kind(Kind.GPU)
    cells = [topology.marks[a][b] for a in gpus for b in gpus if a < b]
    linked = sum(cell.startswith("NV") for cell in cells)
    if 0 < linked < len(cells):
        yield (
            f"NVLinks join {linked} of {len(cells)} pairs of GPUs: a group of tensor parallelism "
            "should hold only GPUs that they join. NVLinks that one ring leaves free carry others."
        )


def _of_nics(topology: Topology) -> Iterator[str]:
    nics = topology.of_kind(Kind.NIC)
    gpus = topology.of_kind(Kind.GPU)
    if not (nics and gpus):
        return
    far: dict[str, list[str]] = {}
    for gpu in gpus:
        best = min((topology.marks[gpu][nic] for nic in nics), key=distance)
        far.setdefault(best, []).append(topology.parts[gpu].name)
    for mark, names in sorted(far.items(), key=lambda item: distance(item[0])):
        who = "Every GPU" if len(names) == len(gpus) else span(names)
        verb = "has" if who == "Every GPU" or len(names) == 1 else "have"
        if mark in ("PIX", "PXB"):
            yield f"{who} {verb} a NIC at {mark}: between hosts data can go past the CPU."
        else:
            yield (
                f"{who} {verb} no NIC nearer than {mark}: by default NCCL then stages what leaves "
                "the host in the CPU's memory (NCCL_NET_GDR_LEVEL)."
            )
