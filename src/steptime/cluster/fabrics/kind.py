"""What a kind of fabric is, and how the kinds are found: every file here that has a FABRIC."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from steptime.cluster.cluster import Fabric
from steptime.cluster.fabrics.wiring import Ends
from steptime.discovery import members
from steptime.section import Section


@dataclass(frozen=True)
class FabricKind:
    """A ``kind`` of a cluster file's section: how the fabric is made of it, wherever it may stand.

    ``inside`` joins so many devices of a host, ``between_nics`` the NICs of all hosts, and
    ``between_hosts`` so many hosts by links that end at them, without NICs.
    """

    name: str
    inside: Callable[[Section, int], Fabric] | None = None
    between_nics: Callable[[Section, Ends], Fabric] | None = None
    between_hosts: Callable[[Section, int], Fabric] | None = None


@cache
def fabric_kinds() -> Mapping[str, FabricKind]:
    """All kinds by their names, in the order of their files."""
    found = members("steptime.cluster.fabrics", "FABRIC", FabricKind)
    return MappingProxyType({kind.name: kind for kind in found})
