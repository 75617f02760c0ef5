"""Topology of a machine: its GPUs, NICs and NUMA nodes, and the paths between them."""

from steptime.topo.topology import Kind, Part, Topology

__all__ = ["Kind", "Part", "Topology"]
