"""A topology as JSON."""

from math import isfinite
from typing import Any

from steptime.arrays import Floats
from steptime.topo.explain import basis, explained, findings
from steptime.topo.ring import Ring
from steptime.topo.topology import Part, Topology


def record(topology: Topology, rates: Floats, ring: Ring | None) -> dict[str, Any]:
    """The output of ``--json``. ``rates``: those of ``expected``, bytes/s, shape (parts, parts)."""
    return {
        "verb": "topo",
        "source": "computed",
        "origin": topology.origin,
        "host": topology.host,
        "notes": list(topology.notes),
        "parts": [_part(part) for part in topology.parts],
        "marks": [list(row) for row in topology.marks],
        "expected_GBps": [[_gbps(rate) for rate in row] for row in rates.tolist()],
        "basis": basis(topology),
        "explain": [
            {
                "mark": found.mark,
                "pairs": found.pairs,
                "meaning": found.meaning,
                "advice": found.kind.advice,
                "expected_GBps": [_gbps(found.least), _gbps(found.most)],
            }
            for found in explained(topology, rates)
        ],
        "findings": list(findings(topology, ring)),
        "ring": _ring(topology, ring) if ring else None,
    }


def _part(part: Part) -> dict[str, Any]:
    return {
        "name": part.name,
        "kind": part.kind.value,
        "title": part.title,
        "numa": part.numa,
        "cpus": part.cpus,
        "above": [place.name for place in part.above],
        "pcie_GBps": _gbps(part.rate),
        "network_GBps": _gbps(part.network),
    }


def _ring(topology: Topology, ring: Ring) -> dict[str, Any]:
    a, b = ring.slowest
    return {
        "source": "computed",
        "order": [topology.parts[n].name for n in ring.order],
        "slowest": [topology.parts[a].name, topology.parts[b].name],
        "mark": topology.marks[a][b],
        "expected_GBps": _gbps(ring.rate),
    }


def _gbps(rate: float | None) -> float | None:
    return round(rate / 1e9, 3) if rate is not None and isfinite(rate) else None
