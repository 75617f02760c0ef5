"""Clusters: hosts, devices and links, their files and presets."""

from steptime.cluster.cluster import NO_LINK, Cluster, Device, Links, Router

__all__ = ["NO_LINK", "Cluster", "Device", "Links", "Router"]
