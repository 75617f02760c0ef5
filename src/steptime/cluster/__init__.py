"""Clusters: hosts, devices and links, their files and presets."""

from steptime.cluster.cluster import (
    MESSAGE,
    NO_LINK,
    CallTimes,
    Cluster,
    Device,
    Fabric,
    Links,
    Router,
)
from steptime.cluster.files import cluster_named, parse_cluster, preset_names

__all__ = [
    "MESSAGE",
    "NO_LINK",
    "CallTimes",
    "Cluster",
    "Device",
    "Fabric",
    "Links",
    "Router",
    "cluster_named",
    "parse_cluster",
    "preset_names",
]
