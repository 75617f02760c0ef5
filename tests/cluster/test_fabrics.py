"""Every kind of fabric: its routes are paths in its graph, and the ones that it promises."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.descriptions import CLUSTERS, DRAGONFLY, TORUS, described
from steptime.cluster import NO_LINK, Cluster, Fabric
from steptime.errors import UsageError


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
def test_every_route_is_a_path(cluster: Cluster) -> None:
    for fabric in (cluster.inside, cluster.network):
        if fabric:
            paths_lead_from_end_to_end(fabric)
    pairs = np.array(list(product(range(cluster.devices), repeat=2)), np.int32)
    paths = cluster.paths(pairs[:, 0], pairs[:, 1])
    same = pairs[:, 0] == pairs[:, 1]
    assert (paths[same] == NO_LINK).all()
    assert (paths[~same, 0] != NO_LINK).all()
    assert ((paths[:, 1:] == NO_LINK) | (paths[:, :-1] != NO_LINK)).all()  # no gaps
    assert paths.max() < cluster.links.bandwidth.size
    for (src, dst), path in zip(pairs, paths, strict=True):
        hosts = {cluster.host_of[src], cluster.host_of[dst]}
        names = [cluster.links.names[link] for link in path if link != NO_LINK]
        inside = {name.split(":")[0] for name in names if ": " in name}
        assert inside <= {f"host{host}" for host in hosts}
        assert (len(hosts) == 1) == all(": " in name for name in names)


def paths_lead_from_end_to_end(fabric: Fabric) -> None:
    joints = set(fabric.joints)
    src, dst = np.nonzero(~np.eye(fabric.ends, dtype=bool))
    for a, b, path in zip(src, dst, fabric.route(src, dst), strict=True):
        here = a
        for link in path[path != NO_LINK]:
            tail = fabric.tails[link]
            assert here == tail or (here, tail) in joints
            here = fabric.heads[link]
        assert here == b or (here, b) in joints


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
def test_many_pairs_at_once_go_as_each_goes_alone(cluster: Cluster) -> None:
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, cluster.devices, (2, 20))
    for a, b, path in zip(src, dst, cluster.paths(src, dst), strict=True):
        alone = cluster.paths([a], [b])[0]
        assert path[path != NO_LINK].tolist() == alone[alone != NO_LINK].tolist()
    assert cluster.paths([], []).shape[0] == 0


def way(cluster: Cluster, src: int, dst: int) -> tuple[list[str], float, float]:
    """Names of the links, latency in microseconds, bandwidth in GB/s."""
    path = cluster.paths([src], [dst])[0]
    path = path[path != NO_LINK]
    names = [cluster.links.names[link] for link in path]
    seconds = float(cluster.links.latency[path].sum())
    return names, round(seconds * 1e6, 6), float(cluster.links.bandwidth[path].min()) / 1e9


def test_a_bus_is_one_link_for_all() -> None:
    assert way(CLUSTERS["bus"], 0, 1) == way(CLUSTERS["bus"], 2, 0)
    assert way(CLUSTERS["bus"], 0, 1)[1:] == (1, 20)
    names, latency, bandwidth = way(CLUSTERS["bus with ports"], 4, 3)
    assert (latency, bandwidth) == (5, 8)
    assert names[1] == "host1: bus in → bus out"


@pytest.mark.parametrize(
    ("dst", "links", "latency", "bandwidth"),
    [(1, 2, 2, 24), (2, 4, 2.2, 20), (5, 6, 2.6, 15), (8, 8, 3.4, 10)],
    ids=["PIX", "PHB", "NODE", "SYS"],
)
def test_pcie_climbs_as_high_as_it_must(dst, links, latency, bandwidth) -> None:
    names, seconds, rate = way(CLUSTERS["pcie"], 0, dst)
    assert (len(names), seconds, rate) == (links, latency, bandwidth)


def test_what_leaves_a_pcie_host_takes_the_link_of_its_device() -> None:
    names, latency, _ = way(CLUSTERS["pcie"], 3, 16)
    assert names == [
        "host0: device3 → switch1",
        "host0.nic1 → switch",
        "switch → host1.nic0",
        "host1: switch0 → device0",
    ]
    assert latency == 6


def test_pairs_have_what_was_measured_for_them() -> None:
    cluster = CLUSTERS["pairs"]
    found = [way(cluster, *pair)[1:] for pair in [(0, 1), (1, 0), (2, 1), (0, 2), (2, 0), (5, 3)]]
    assert found == [(1, 5), (1, 5), (2, 6), (3, 7), (4, 8), (4, 8)]


def test_pairs_may_share_a_medium_and_ports() -> None:
    names, latency, bandwidth = way(CLUSTERS["pairs together"], 0, 2)
    assert names == ["host0: all pairs in → all pairs out", "host0: pairs0 → device2"]
    assert (latency, bandwidth) == (3, 7)
    names, latency, bandwidth = way(CLUSTERS["pairs together by ports"], 0, 2)
    ends = ["host0: port0 in → port0 out", "host0: port2 in → port2 out"]
    assert [names[0], names[3]] == ends
    assert (len(names), latency, bandwidth) == (4, 3, 6)
    # What a device receives takes the same port as what it sends.
    assert way(CLUSTERS["ports"], 2, 1)[0][0] == ends[1]


def test_a_fat_tree_pools_what_its_leaves_send_up() -> None:
    cluster = CLUSTERS["fat tree of three levels"]
    rates = dict(zip(cluster.links.names, cluster.links.bandwidth / 1e9, strict=True))
    assert rates["leaf0 → pod0"] == 10  # 2 hosts x 10 GB/s at 2:1
    assert rates["core → pod1"] == 5  # 2 leaves x 10 GB/s at 4:1
    assert [len(way(cluster, 0, dst)[0]) for dst in (2, 4, 8, 16)] == [2, 4, 6, 6]
    assert way(cluster, 0, 8)[1] == 6  # two NICs at 2 us, four links at 0.5


def test_rails_cross_over_the_spine_or_inside_the_host() -> None:
    spine, host = CLUSTERS["rails"], CLUSTERS["rails and hops"]
    assert way(spine, 1, 5)[0] == ["host0.nic1 → block0.rail1", "block0.rail1 → host1.nic1"]
    assert way(spine, 0, 5)[0][1:3] == ["block0.rail0 → spine", "spine → block0.rail1"]
    assert way(host, 0, 7)[0] == [
        "host0: device0 → switch",
        "host0: switch → device3",
        "host0.nic1 → block0.rail1",
        "block0.rail1 → host1.nic1",
    ]
    assert way(host, 0, 5)[0][0] == "host0.nic0 → block0.rail0"  # of devices 0 and 1 one NIC
    assert "spine → block1.rail1" in way(host, 0, 23)[0]


@given(groups=st.integers(1, 6), routers=st.integers(1, 5), hosts=st.integers(1, 2))
@settings(max_examples=10, deadline=None)
def test_a_dragonfly_takes_one_link_between_groups(groups: int, routers: int, hosts: int) -> None:
    count = groups * routers * hosts
    if count == 1:
        return
    cluster = described(count, 1, DRAGONFLY.format(groups, routers, hosts), nics=1)
    assert cluster.network is not None
    paths_lead_from_end_to_end(cluster.network)
    labels = [label for label, number in cluster.network.labels for _ in range(number)]
    src, dst = np.nonzero(~np.eye(count, dtype=bool))
    for a, b, path in zip(src, dst, cluster.paths(src, dst), strict=True):
        kinds = Counter(labels[link] for link in path if link != NO_LINK)
        assert kinds["global"] == (a // (routers * hosts) != b // (routers * hosts))
        assert kinds["local"] <= 1 + kinds["global"]
    assert sum(number for label, number in cluster.network.labels if label == "global") == (
        groups * (groups - 1)
    )


@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=3).filter(lambda s: np.prod(s) > 1))
@settings(max_examples=10, deadline=None)
def test_a_torus_takes_the_shorter_way_along_each_dimension(sizes: list[int]) -> None:
    count = int(np.prod(sizes))
    cluster = described(count, 1, TORUS.format(sizes))
    assert cluster.network is not None
    paths_lead_from_end_to_end(cluster.network)
    at = np.stack(np.unravel_index(np.arange(count), sizes))
    apart = np.abs(at[:, :, None] - at[:, None, :])
    least = np.minimum(apart, np.array(sizes)[:, None, None] - apart).sum(axis=0)
    src, dst = np.divmod(np.arange(count**2), count)
    hops = (cluster.paths(src, dst) != NO_LINK).sum(axis=1)
    assert (hops == least.reshape(-1)).all()
    neighbours = sum(0 if size == 1 else 1 if size == 2 else 2 for size in sizes)
    assert cluster.links.bandwidth.size == count * neighbours


def test_listed_links_are_taken_by_latency() -> None:
    assert way(CLUSTERS["links"], 0, 4) == (
        ["host0 → left", "left → middle", "middle → right", "right → host2"],
        12,
        9,
    )
    assert way(CLUSTERS["links"], 4, 0)[1] == 30  # there is no way back over the middle


@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_shortest_paths_are_those_of_floyd_and_warshall(data: st.DataObject) -> None:
    hosts, switches = data.draw(st.integers(2, 4)), data.draw(st.integers(0, 3))
    nodes = [f"host{n}" for n in range(hosts)] + [f"s{n}" for n in range(switches)]
    ends = st.lists(st.sampled_from(nodes), min_size=2, max_size=2, unique=True)
    chosen = data.draw(st.lists(st.tuples(ends, st.integers(0, 9)), min_size=1, max_size=12))
    best = np.where(np.eye(len(nodes), dtype=bool), 0.0, np.inf)
    lines = []
    for (a, b), latency in chosen:
        lines.append(
            f'{{ from = "{a}", to = "{b}", bandwidth = "1GB/s", latency = "{latency}us" }}'
        )
        pair = nodes.index(a), nodes.index(b)
        best[pair] = min(best[pair], latency)
    for middle in range(len(nodes)):
        best = np.minimum(best, best[:, middle, None] + best[None, middle])
    network = f'kind = "links"\nlinks = [{", ".join(lines)}]'
    if np.isinf(best[0, :hosts]).any() or np.isinf(best[:hosts, 0]).any():
        with pytest.raises(UsageError, match="add links for it"):
            described(hosts, 1, network)
        return
    cluster = described(hosts, 1, network)
    for a, b in product(range(hosts), repeat=2):
        assert way(cluster, a, b)[1] == best[a, b] if a != b else True
