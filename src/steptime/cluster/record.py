"""A cluster as JSON."""

from collections.abc import Sequence
from typing import Any

from steptime.cluster.bisection import bisection
from steptime.cluster.cluster import Cluster
from steptime.cluster.summary import link_groups, path_groups


def record(cluster: Cluster) -> dict[str, Any]:
    """The output of ``--json`` for one cluster."""
    device = cluster.device
    return {
        "verb": "cluster",
        "source": "computed",
        "name": cluster.name,
        "title": cluster.title,
        "origin": cluster.source,
        "hosts": cluster.hosts,
        "devices": cluster.devices,
        "device": {
            "name": device.name,
            "flops": dict(device.flops),
            "memory_bytes": device.memory,
            "memory_bandwidth_Bps": device.memory_bandwidth,
            "efficiency": device.efficiency,
            "basis": device.basis,
            "reduction_Bps": device.reduction if device.reduction < float("inf") else None,
        },
        "inside": cluster.inside.kind if cluster.inside else None,
        "network": cluster.network.kind if cluster.network else None,
        "bisection_Bps": bisection(cluster),
        "links": [
            {
                "where": group.where,
                "label": group.label,
                "number": group.number,
                "bandwidth_Bps": list(group.bandwidth),
                "latency_s": list(group.latency),
            }
            for group in link_groups(cluster)
        ],
        "paths_from_device_0": [
            {
                "devices": path.devices,
                "by": list(path.by),
                "links": path.links,
                "latency_s": path.latency,
                "bandwidth_Bps": path.bandwidth,
            }
            for path in path_groups(cluster)
        ],
        "order": cluster.order.tolist(),
    }


def record_all(clusters: Sequence[Cluster]) -> dict[str, Any]:
    """The output of ``--json`` for the clusters that are shipped."""
    names = [{"name": one.name, "title": one.title, "origin": one.source} for one in clusters]
    return {"verb": "cluster", "clusters": names}
