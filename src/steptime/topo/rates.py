"""Expected rates of paths between two parts, computed from NCCL's own table of links.

Figures: NCCL, src/graph/topo.h and topo.cc; bytes/s one way, as NCCL expects to reach, not the sum
of both directions that data sheets print.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import numpy as np

from steptime.arrays import Floats
from steptime.topo.marks import MOST_LINKS
from steptime.topo.topology import Kind, Part, Topology, common

_NVLINK = ((60, 18.0), (70, 20.0), (80, 20.0), (86, 12.0), (90, 20.6), (100, 40.1))  # GB/s by sm
_PCIE_LANE = MappingProxyType({2.5: 15, 5.0: 30, 8.0: 60, 16.0: 120, 32.0: 240, 64.0: 480})
_INTEL = ((0, 6.0), (0x55, 10.0), (0x8F, 22.0), (0xCF, 40.0))  # GB/s between sockets, by model
_AMD = ((0, 16.0), (0x19, 24.0), (0x1A, 32.0))  # the same by family: Zen, Zen 3, Zen 5
_INTEL_PEER_TO_PEER = 6 / 5  # what NCCL charges for traffic between GPUs through an Intel CPU


@dataclass(frozen=True)
class Processor:
    """A CPU as the kernel names it: ``family`` and ``model`` are those of /proc/cpuinfo."""

    arch: str
    vendor: str
    family: int
    model: int


def _newest(table: Sequence[tuple[int, float]], number: int) -> float:
    return [gbps for first, gbps in table if number >= first][-1] * 1e9


def between_sockets(cpu: Processor) -> float | None:
    """Bytes/s each way between two such CPUs; None where NCCL's table has none."""
    if cpu.vendor == "GenuineIntel":
        return _newest(_INTEL, cpu.model)
    if cpu.vendor == "AuthenticAMD":
        return _newest(_AMD, cpu.family)
    others = {"ppc64": 32e9, "ppc64le": 32e9, "arm64": 6e9, "aarch64": 6e9}
    return others.get(cpu.arch)


def nvlink_rate(sm: int) -> float | None:
    """Bytes/s each way of one NVLink of a GPU of compute capability ``sm``, such as 90."""
    return _newest(_NVLINK, sm) if sm >= _NVLINK[0][0] else None


def pcie_rate(speed: str, width: int) -> float:
    """Bytes/s each way of a PCIe link of ``16.0 GT/s PCIe`` and so many lanes.

    An unknown speed counts as 8 GT/s, as in NCCL.
    """
    try:
        transfers = float(speed.split()[0])
    except (IndexError, ValueError):
        transfers = 8.0
    return width * _PCIE_LANE.get(transfers, 60) / 80 * 1e9


@dataclass(frozen=True)
class Assumed:
    """Rates to assume where the topology gives none; ``words`` list them, empty if there are none.

    Rates are bytes/s each way: of one NVLink, of a GPU's PCIe link, between CPUs.
    """

    nvlink: float
    pcie: float
    sockets: float
    intel: bool
    words: str


# By the NVLinks of a GPU, which tell its generation where nothing else does.
_ERAS = (
    (
        range(18, MOST_LINKS),
        Assumed(20.6e9, 48e9, 22e9, True, "Hopper (NVLinks of Blackwell: twice that)"),
    ),
    (range(8, 18), Assumed(20e9, 24e9, 16e9, False, "Ampere in an AMD host")),
    (range(4, 5), Assumed(12e9, 24e9, 16e9, False, "Ampere's PCIe cards with a bridge")),
    (range(1, 8), Assumed(20e9, 12e9, 10e9, True, "Volta in an Intel host")),
    (range(1), Assumed(20e9, 24e9, 10e9, True, "PCIe 4.0 x16 in an Intel host")),
)


def assumed(topology: Topology) -> Assumed:
    """The rates that must be assumed of ``topology`` to compute those of its paths."""
    gpus = topology.of_kind(Kind.GPU)
    if not gpus:
        return Assumed(np.inf, np.inf, np.inf, False, "")
    cells = {topology.marks[a][b] for a in gpus for b in gpus if a != b}
    links = max((int(cell[2:]) for cell in cells if cell.startswith("NV")), default=0)
    era = next(era for counts, era in _ERAS if links in counts)
    sockets = topology.between_sockets
    known = sockets is not None and all(topology.parts[gpu].rate for gpu in gpus)
    return replace(
        era,
        sockets=era.sockets if sockets is None else sockets,
        intel=era.intel if sockets is None else topology.intel,
        words="" if known else era.words,
    )


def expected(topology: Topology) -> Floats:
    """Bytes/s each way from every part to every other, shape (parts, parts); inf to itself.

    Of one transfer while no other is in progress. A NIC's cable is not part of a path.
    """
    guess = assumed(topology)
    count = len(topology.parts)
    rates = np.full((count, count), np.inf)
    for a in range(count):
        for b in range(count):
            if a != b:
                rates[a, b] = _expected(topology, a, b, guess)
    return rates


def _expected(topology: Topology, a: int, b: int, guess: Assumed) -> float:
    mark, ends = topology.marks[a][b], (topology.parts[a], topology.parts[b])
    if mark.startswith("NV"):
        return int(mark[2:]) * min(part.nvlink or guess.nvlink for part in ends)
    rate = min(_upwards(ends, part, guess) for part in ends)
    between_gpus = all(part.kind is Kind.GPU for part in ends)
    if between_gpus and guess.intel and mark in ("PHB", "NODE", "SYS"):
        rate /= _INTEL_PEER_TO_PEER  # on the links of PCIe, not between CPUs
    return min(rate, guess.sockets) if mark == "SYS" else rate


def _upwards(ends: tuple[Part, Part], part: Part, guess: Assumed) -> float:
    """The rate of the slowest link from a part up to the place that it shares with the other."""
    if part.kind is Kind.CPU:
        return float("inf")
    own = part.above[len(common(*ends)) :]
    return min([part.rate or guess.pcie, *(place.rate for place in own if place.rate)])
