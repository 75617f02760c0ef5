"""Storage: the engine's arrays, allocated and enlarged."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Ints
from steptime.cluster import Cluster, Links
from steptime.errors import UsageError
from steptime.host_memory import require_memory
from steptime.simulate.network import engine
from steptime.simulate.network.state import (
    BINS,
    COUNTS,
    ENDED,
    EVENT,
    FINEST,
    FLOW,
    INSTANT,
    INSTANTS,
    KEPT,
    LINK,
    NONE,
    OWNER,
    PART,
    Network,
)

FEWER_RANKS = "ask for fewer ranks or another algorithm"
_FEW = 64


def bytes_a_flow(hops: int) -> int:
    """The bytes that a flow takes in all arrays together."""
    agenda = 2 * EVENT.itemsize + INSTANT.itemsize + 4 + 4 + 8
    return FLOW.itemsize + 4 + 20 * hops + agenda + ENDED.itemsize


def empty_network(cluster: Cluster, *, keep: bool) -> Network:
    """The links of a cluster with no messages; ``keep``: keep a row of each that will arrive.

    Raises UsageError for a link with impossible figures.
    """
    links = cluster.links
    _check(links, cluster.name)
    counts, records = np.zeros(1, COUNTS), np.zeros(len(links.names), LINK)
    counts["keep"], counts["width"], counts["bins"] = keep, FINEST, 1 / FINEST
    records["bandwidth"] = links.bandwidth
    records["first"] = records["row"] = NONE
    network = Network(
        counts=counts,
        links=records,
        flows=np.zeros(0, FLOW),
        spare_flows=np.empty(0, np.int32),
        paths=np.empty((0, 1), np.int32),
        following=np.empty((0, 1), np.int64),
        before=np.empty((0, 1), np.int64),
        parts=np.zeros(0, PART),
        owners=np.zeros(0, OWNER),
        events=np.empty(0, EVENT),
        instants=np.empty(0, INSTANT),
        spare_instants=np.empty(0, np.int32),
        recent=np.full(INSTANTS, NONE, np.int32),
        heap=np.empty(0, np.int32),
        keys=np.empty(0),
        changed=np.empty(records.size, np.int32),
        found=np.empty(records.size, np.int32),
        shares=np.empty(records.size),
        ended=np.empty(0, ENDED),
        logged=np.empty(0, KEPT),
        series=np.zeros((BINS, 0)),
        steps=np.zeros((BINS, 0)),
    )
    return with_parts(with_owners(with_flows(network, _FEW, 1), _FEW), _FEW)


def with_flows(network: Network, spare: int, hops: int) -> Network:
    """The network with at least so many spare slots, for paths of so many hops."""
    old, there = len(network.flows), int(network.counts["spare_flows"][0])
    size = old if there >= spare else max(2 * old, old + spare - there)
    hops = max(hops, network.paths.shape[1])
    if size == old and hops == network.paths.shape[1]:
        return network
    require_memory(size * bytes_a_flow(hops), f"{size:,} messages under way at once", FEWER_RANKS)
    network = network._replace(
        flows=_longer(network.flows, size),
        spare_flows=_longer(network.spare_flows, size),
        paths=_wider(network.paths, size, hops),
        following=_wider(network.following, size, hops),
        before=_wider(network.before, size, hops),
    )
    network.spare_flows[there : there + size - old] = np.arange(old, size)[::-1]
    network.counts["spare_flows"] += size - old
    return _with_events(network)


def with_parts(network: Network, size: int) -> Network:
    """The network with room for at least so many parts."""
    return _with_events(network._replace(parts=_longer(network.parts, size)))


def with_owners(network: Network, size: int) -> Network:
    """The network with room for at least so many owners."""
    return network._replace(owners=_longer(network.owners, size))


def with_series(network: Network, paths: Ints) -> Network:
    """The network with a row in the series for each link of some paths, shape (n, hops)."""
    engine.give_rows(network, paths)
    rows = int(network.counts["rows"][0])
    if rows <= network.series.shape[1]:
        return network
    size = min(2 * rows, len(network.links))
    return network._replace(
        series=_wider(network.series, BINS, size), steps=_wider(network.steps, BINS, size)
    )


def clear(network: Network) -> None:
    """Remove what messages left on a network that is empty again."""
    for name, value in (("messages", 0), ("width", FINEST), ("bins", 1 / FINEST)):
        network.counts[name] = value
    network.links["nbytes"] = 0.0
    network.series[:] = network.steps[:] = network.counts["lasting"] = 0


def with_log(network: Network) -> Network:
    """The network with room in the log for all that can arrive at one instant."""
    size = 2 * len(network.logged) + len(network.flows)
    require_memory(size * KEPT.itemsize, f"keeping {size:,} messages", FEWER_RANKS)
    return network._replace(logged=_longer(network.logged, size))


def kept_of(network: Network) -> NDArray[Any]:
    """The messages that have arrived, dtype KEPT; none unless they are kept."""
    return network.logged[: network.counts["logged"][0]]


def _with_events(network: Network) -> Network:
    """The network with an event for each flow and part, and an instant for each event."""
    flows, parts = len(network.flows), len(network.parts)
    old, size = len(network.instants), flows + parts
    network = network._replace(
        events=_longer(network.events, 2 * max(flows, parts)),
        instants=_longer(network.instants, size),
        spare_instants=_longer(network.spare_instants, size),
        heap=_longer(network.heap, size),
        keys=_longer(network.keys, size),
        ended=_longer(network.ended, size),
    )
    there = int(network.counts["spare_instants"][0])
    network.spare_instants[there : there + size - old] = np.arange(old, size)[::-1]
    network.counts["spare_instants"] += size - old
    return network


def _longer(array: NDArray[Any], size: int) -> NDArray[Any]:
    if size <= len(array):
        return array
    longer = np.zeros((size, *array.shape[1:]), array.dtype)
    longer[: len(array)] = array
    return longer


def _wider(array: NDArray[Any], size: int, hops: int) -> NDArray[Any]:
    wider = np.zeros((size, hops), array.dtype)
    wider[: array.shape[0], : array.shape[1]] = array
    return wider


def _check(links: Links, name: str) -> None:
    latency = links.latency
    for what, values, wrong, least in (
        ("bandwidth", links.bandwidth, ~(links.bandwidth > 0), "above 0"),
        ("latency", latency, ~((latency >= 0) & np.isfinite(latency)), "from 0 on"),
    ):
        if wrong.any():
            first = int(np.argmax(wrong))
            raise UsageError(
                f"the link {links.names[first]} of {name} has a {what} of {values[first]:g}: give "
                f"one {least}"
            )
