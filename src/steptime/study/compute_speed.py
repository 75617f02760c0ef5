"""What the times of computing in a simulated step stand on."""

from steptime.cluster import Cluster
from steptime.program import Compute, Program
from steptime.runs.figures import ComputeSpeed


def compute_speed(program: Program, cluster: Cluster, software: str | None = None) -> ComputeSpeed:
    """Given, where the program has them; otherwise what its cluster says of its devices' speed.

    ``software``: what drives these, where the program is as that makes it.
    """
    if software is not None:
        return ComputeSpeed(basis="software", software=software, device=cluster.device.name)
    every = (op for ops in program.lists for op in ops if isinstance(op, Compute))
    ops = [op for op in every if op.flops or op.seconds is not None]
    if all(op.seconds is not None for op in ops):
        return ComputeSpeed(basis="given")
    device = cluster.device
    if device.kernels and any(op.kernels for op in ops):
        return ComputeSpeed(basis="kernels", device=device.name)
    return ComputeSpeed(basis=device.basis, of_peak=device.efficiency, device=device.name)
