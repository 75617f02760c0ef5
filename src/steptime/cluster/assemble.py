"""Assembling a cluster from the fabric inside its hosts and the one between them."""

import numpy as np

from steptime.arrays import Ints
from steptime.cluster.cluster import NO_LINK, Fabric, Links, Router
from steptime.cluster.fabrics.wiring import closed_up


def joined_links(hosts: int, inside: Fabric | None, network: Fabric | None) -> Links:
    """The links of all hosts in order, then those of the network."""
    names: list[str] = []
    bandwidth = [np.zeros(0)]
    latency = [np.zeros(0)]
    if inside:
        for host in range(hosts):
            names += [f"host{host}: {name}" for name in inside.links.names]
        bandwidth.append(np.tile(inside.links.bandwidth, hosts))
        latency.append(np.tile(inside.links.latency, hosts))
    if network:
        names += network.links.names
        bandwidth.append(network.links.bandwidth)
        latency.append(network.links.latency)
    return Links(tuple(names), np.concatenate(bandwidth), np.concatenate(latency))


def joined_route(hosts: int, devices: int, inside: Fabric | None, network: Fabric | None) -> Router:
    """Routes between devices, ``devices`` on each host, by the host's fabric or the network.

    A device uses the NIC ``local * nics // devices`` of its host. In a network with ``hop`` a
    message to a device at another NIC goes first to the device of its own host that has the other
    one's place (PXN in NVIDIA, "Doubling all2all Performance with NCCL 2.12").
    """
    per_host = inside.links.bandwidth.size if inside else 0
    nics = network.ends // hosts if network else 1

    def route(src: Ints, dst: Ints) -> Ints:
        host, other = src // devices, dst // devices
        local, there = src % devices, dst % devices
        near = np.flatnonzero((host == other) & (local != there))
        far = np.flatnonzero(host != other)
        rows = [(near, _within(inside, host[near], local[near], there[near], per_host))]
        nic, its = local[far] * nics // devices, there[far] * nics // devices
        if network and far.size:
            parts = []
            at = local[far]
            if network.hop:
                at = np.where(nic == its, at, there[far])
                hopping = np.flatnonzero(at != local[far])
                hops = _within(
                    inside, host[far][hopping], local[far][hopping], at[hopping], per_host
                )
                parts.append(_spread(far.size, [(hopping, hops)]))
                nic = its
            parts.append(_edge(inside.leave if inside else None, host[far], at, per_host))
            across = network.route(host[far] * nics + nic, other[far] * nics + its)
            parts.append(_moved(across, hosts * per_host))
            parts.append(_edge(inside.arrive if inside else None, other[far], there[far], per_host))
            rows.append((far, closed_up(np.concatenate(parts, axis=1))))
        return _spread(src.size, rows)

    return route


def _within(inside: Fabric | None, host: Ints, src: Ints, dst: Ints, per_host: int) -> Ints:
    """Paths inside hosts."""
    if inside is None or not src.size:
        return np.zeros((src.size, 0), np.int32)
    return _moved(inside.route(src, dst), (host * per_host)[:, None])


def _edge(links: Ints | None, host: Ints, local: Ints, per_host: int) -> Ints:
    """The link between a device and the NICs of its host, if it has one: shape (n, 0 or 1)."""
    if links is None:
        return np.zeros((host.size, 0), np.int32)
    return _moved(links[local][:, None], (host * per_host)[:, None])


def _moved(paths: Ints, by: Ints | int) -> Ints:
    """Paths with their link numbers raised by ``by``."""
    return np.where(paths == NO_LINK, NO_LINK, paths + by).astype(np.int32)


def _spread(count: int, rows: list[tuple[np.ndarray[tuple[int], np.dtype[np.intp]], Ints]]) -> Ints:
    """Paths of some rows as paths of ``count`` rows, of which the others are empty."""
    width = max(paths.shape[1] for _, paths in rows)
    spread = np.full((count, width), NO_LINK, np.int32)
    for places, paths in rows:
        spread[places, : paths.shape[1]] = paths
    return spread
