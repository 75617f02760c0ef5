"""What a machine is: its GPUs, NICs and NUMA nodes, and what lies between them."""

from steptime.topo.topology import Kind, Part, Topology

__all__ = ["Kind", "Part", "Topology"]
