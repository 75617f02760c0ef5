"""Machine: devices, what joins them, and the software that drives them."""

from dataclasses import dataclass

from steptime.cluster import Cluster, Device
from steptime.predict.software import Software
from steptime.simulate.nccl import Network, network_of


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What a step is predicted on: ``devices`` of a kind, at most, of which ``network`` joins all.

    ``name``: of the cluster that it was made of.
    """

    name: str
    device: Device
    devices: int
    network: Network
    software: Software


def machine_of(cluster: Cluster, software: Software) -> Machine:
    """The machine that a cluster is under some software."""
    return Machine(
        name=cluster.name,
        device=cluster.device,
        devices=cluster.order.size,
        network=network_of(cluster),
        software=software,
    )
