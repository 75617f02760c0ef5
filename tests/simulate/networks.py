"""Small clusters for tests, made by hand: a star of devices, and racks of stars on one trunk."""

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Ints
from steptime.cluster import NO_LINK, Cluster, Device, Links
from steptime.cluster.cluster import Router

DEVICE = Device(name="device", flops={"fp32": 1e12}, memory=1e10, memory_bandwidth=1e11)


def star(
    devices: int, bandwidth: float = 25e9, latency: float = 5e-6, *, reduction: float = np.inf
) -> Cluster:
    """Devices, each a host, with one link up to a crossbar and one down: ``latency`` on each."""

    def route(src: Ints, dst: Ints) -> Ints:
        path = np.stack([src, devices + dst], axis=1)
        path[src == dst] = NO_LINK
        return path

    both = 2 * devices
    return cluster(
        Links(
            tuple(f"{way}{d}" for way in ("up", "down") for d in range(devices)),
            np.full(both, bandwidth),
            np.full(both, latency),
        ),
        route,
        np.arange(devices, dtype=np.int32),
        reduction=reduction,
    )


def racks(
    count: int,
    size: int,
    bandwidth: float = 25e9,
    latency: float = 5e-6,
    *,
    trunk: float = 50e9,
) -> Cluster:
    """Racks of devices, each with a trunk out of bandwidth ``trunk`` and ``latency``.

    The way into a rack is never a limit and takes no time.
    """
    devices = count * size
    down, out, into = devices, 2 * devices, 2 * devices + count

    def route(src: Ints, dst: Ints) -> Ints:
        path = np.stack([src, out + src // size, into + dst // size, down + dst], axis=1)
        near = src // size == dst // size
        path[near, 1] = down + dst[near]
        path[near, 2:] = NO_LINK
        path[src == dst] = NO_LINK
        return path

    ends = np.ones(2 * devices)
    return cluster(
        Links(
            tuple(f"link{number}" for number in range(2 * (devices + count))),
            np.concatenate([bandwidth * ends, np.full(count, trunk), np.full(count, np.inf)]),
            np.concatenate([latency * ends, np.full(count, latency), np.zeros(count)]),
        ),
        route,
        np.arange(devices, dtype=np.int32) // size,
    )


def table(bandwidth: NDArray[np.float64], latency: NDArray[np.float64], paths: Ints) -> Cluster:
    """Any network: ``paths`` of shape (devices, devices, hops), padded with NO_LINK."""
    devices = paths.shape[0]
    return cluster(
        Links(tuple(f"link{number}" for number in range(bandwidth.size)), bandwidth, latency),
        lambda src, dst: paths[src, dst],
        np.arange(devices, dtype=np.int32),
    )


def cluster(links: Links, route: Router, host_of: Ints, *, reduction: float = np.inf) -> Cluster:
    """A cluster of equal devices on these links."""
    device = Device(
        name=DEVICE.name,
        flops=DEVICE.flops,
        memory=DEVICE.memory,
        memory_bandwidth=DEVICE.memory_bandwidth,
        reduction=reduction,
    )
    return Cluster(
        name="test",
        title="a test",
        source="none",
        device=device,
        host_of=host_of.astype(np.int32),
        speed=np.ones(host_of.size),
        links=links,
        route=route,
        order=np.arange(host_of.size, dtype=np.int32),
    )
