"""Clusters: hosts, devices and links, their files and presets."""

from steptime.cluster.cluster import (
    MESSAGE,
    NO_LINK,
    POST,
    CallTimes,
    Cluster,
    Device,
    Fabric,
    Links,
    Nccl,
    Router,
)
from steptime.cluster.device_files import device_named, device_names
from steptime.cluster.files import cluster_named, parse_cluster, preset_names
from steptime.cluster.kernel_parameters import AttentionRates, Kernels

__all__ = [
    "MESSAGE",
    "NO_LINK",
    "POST",
    "AttentionRates",
    "CallTimes",
    "Cluster",
    "Device",
    "Fabric",
    "Kernels",
    "Links",
    "Nccl",
    "Router",
    "cluster_named",
    "device_named",
    "device_names",
    "parse_cluster",
    "preset_names",
]
