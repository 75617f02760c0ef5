"""A cluster as JSON."""

from collections.abc import Sequence
from typing import Any

from steptime.cluster.bisection import bisection
from steptime.cluster.cluster import Cluster
from steptime.cluster.summary import link_groups, path_groups


def record(shown: Cluster) -> dict[str, Any]:
    """What ``--json`` holds of a cluster."""
    device = shown.device
    return {
        "verb": "cluster",
        "source": "computed",
        "name": shown.name,
        "title": shown.title,
        "origin": shown.source,
        "hosts": shown.hosts,
        "devices": shown.devices,
        "device": {
            "name": device.name,
            "flops": dict(device.flops),
            "memory_bytes": device.memory,
            "memory_bandwidth_Bps": device.memory_bandwidth,
            "efficiency": device.efficiency,
            "reduction_Bps": device.reduction if device.reduction < float("inf") else None,
        },
        "inside": shown.inside.kind if shown.inside else None,
        "network": shown.network.kind if shown.network else None,
        "bisection_Bps": bisection(shown),
        "links": [
            {
                "where": group.where,
                "label": group.label,
                "number": group.number,
                "bandwidth_Bps": list(group.bandwidth),
                "latency_s": list(group.latency),
            }
            for group in link_groups(shown)
        ],
        "paths_from_device_0": [
            {
                "devices": path.devices,
                "by": list(path.by),
                "links": path.links,
                "latency_s": path.latency,
                "bandwidth_Bps": path.bandwidth,
            }
            for path in path_groups(shown)
        ],
        "order": shown.order.tolist(),
    }


def record_all(shown: Sequence[Cluster]) -> dict[str, Any]:
    """What ``--json`` holds of the clusters that are shipped."""
    names = [{"name": one.name, "title": one.title, "origin": one.source} for one in shown]
    return {"verb": "cluster", "clusters": names}
