"""Topology: the GPUs, NICs and NUMA nodes of one host, and the path between every two of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations, takewhile
from typing import TypeAlias


class Kind(StrEnum):
    """The kind of a part."""

    GPU = "GPU"
    NIC = "NIC"
    CPU = "CPU"


class Level(StrEnum):
    """The level of an inner node in the host's tree, from the root to the leaves."""

    NUMA = "NUMA node"
    BRIDGE = "host bridge"
    SWITCH = "PCIe switch"
    PORT = "PCIe port"


@dataclass(frozen=True)
class Place:
    """An inner node of the host's tree: level and name. ``rate``: bytes/s of its link upwards."""

    level: Level
    name: str
    rate: float | None = None


@dataclass(frozen=True, kw_only=True)
class Part:
    """A leaf of the tree: a row of the matrix.

    ``above``: the places from the root down to it. ``numa`` and ``cpus``: the NUMA node and the
    CPUs it is near, as the kernel lists them, empty where unknown. ``rate``: bytes/s of its own
    PCIe link each way, ``network`` of a NIC's cable. ``nvlink``: bytes/s of one NVLink each way.
    """

    name: str
    kind: Kind
    title: str = ""
    numa: str = ""
    cpus: str = ""
    above: tuple[Place, ...] = ()
    rate: float | None = None
    network: float | None = None
    nvlink: float | None = None


Marks: TypeAlias = tuple[tuple[str, ...], ...]
"""The mark of each part towards each, shape (parts, parts): X, NV#, PIX, PXB, PHB, NODE or SYS."""


MOST_PARTS = 512
"""GPUs and NICs of a host; every pair of them is looked at."""


@dataclass(frozen=True, kw_only=True)
class Topology:
    """One host, called ``host``. ``origin``: where its description comes from.

    ``between_sockets``: bytes/s each way from one CPU to another, where known; ``intel``: whether
    the CPUs are Intel's, through which traffic between GPUs is slower.
    """

    origin: str
    host: str
    parts: tuple[Part, ...]
    marks: Marks
    between_sockets: float | None = None
    intel: bool = False
    notes: tuple[str, ...] = ()

    def of_kind(self, kind: Kind) -> list[int]:
        """The numbers of the parts of a kind, in order."""
        return [number for number, part in enumerate(self.parts) if part.kind is kind]


def common(a: Part, b: Part) -> tuple[Place, ...]:
    """The places above both parts, from the root down."""
    pairs = zip(a.above, b.above, strict=False)
    return tuple(place for place, _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def mark_between(a: Part, b: Part) -> str:
    """PIX, PXB, PHB, NODE or SYS: the name of the PCIe path in ``nvidia-smi topo -m``."""
    shared = common(a, b)
    if not shared:
        return "SYS"
    if Kind.CPU in (a.kind, b.kind):
        return "PHB"
    if shared[-1].level is Level.NUMA:
        return "NODE"
    if shared[-1].level is Level.BRIDGE:
        return "PHB"
    below = (place for part in (a, b) for place in part.above[len(shared) :])
    return "PXB" if any(place.level is Level.SWITCH for place in below) else "PIX"


def marks_of(parts: Sequence[Part], nvlinks: Mapping[tuple[int, int], int]) -> Marks:
    """The matrix of ``parts``; ``nvlinks``: the NVLinks between pairs (lower number first)."""
    marks = [["X"] * len(parts) for _ in parts]
    for a, b in combinations(range(len(parts)), 2):
        links = nvlinks.get((a, b), 0)
        marks[a][b] = marks[b][a] = f"NV{links}" if links else mark_between(parts[a], parts[b])
    return tuple(map(tuple, marks))
