"""The network model by itself: what is known exactly, and what must hold of any messages."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulate import oracle
from simulate.networks import racks, star, table
from steptime.cluster import NO_LINK, Links
from steptime.errors import UsageError
from steptime.simulate.network.flows import finish_times, run_flows
from steptime.simulate.network.simulator import NetworkSimulator
from steptime.simulate.network.state import FLOWING

EXACT = 1e-9


def test_messages_between_racks_share_the_trunk():
    hosts = np.arange(8)
    times = finish_times(racks(2, 8), hosts, hosts + 8, np.full(8, 1e8), np.zeros(8))
    np.testing.assert_allclose(times, 16.015e-3, rtol=EXACT)


def test_messages_to_one_host_share_its_link():
    times = finish_times(star(16), np.arange(1, 8), np.zeros(7), np.full(7, 1e8), np.zeros(7))
    np.testing.assert_allclose(times, 28.010e-3, rtol=EXACT)


def test_a_message_alone_takes_latency_and_bytes_over_the_narrowest_link():
    cluster = racks(2, 2, bandwidth=1e9, latency=1e-3, trunk=1e8)
    times = finish_times(cluster, [0, 0, 1], [1, 2, 1], [1e6, 1e7, 1e9], [0.0, 5.0, 7.0])
    np.testing.assert_allclose(times, [0.003, 5.103, 7.0], rtol=EXACT)


def test_a_message_of_no_bytes_takes_the_latency():
    assert finish_times(star(2, latency=3.0), [0], [1], [0], [1.0]) == [7.0]


def test_infinite_links_take_no_time():
    cluster = star(3, bandwidth=np.inf, latency=1e-6)
    times, traffic = run_flows(cluster, [0, 1, 1], [2, 2, 0], [1e9, 5, 1e30], [0, 0, 1])
    np.testing.assert_allclose(times, [2e-6, 2e-6, 1 + 2e-6], rtol=EXACT)
    assert traffic.link_bytes[3 + 2] == 1e9 + 5
    assert not traffic.link_series.utilisation.any()


def test_a_later_message_slows_one_that_is_under_way():
    # A gets 1 s alone, then half until B, of half its size, is done, then all again.
    times = finish_times(star(3, 1.0, 0.0), [0, 1], [2, 2], [4.0, 1.0], [0.0, 1.0])
    np.testing.assert_allclose(times, [5.0, 3.0], rtol=EXACT)


def test_what_a_limited_message_leaves_goes_to_the_others():
    # Link 0 of 1 B/s is shared by A and B; B and C share link 1 of 10 B/s: C gets 9.5.
    paths = np.full((4, 4, 2), NO_LINK, np.int32)
    paths[0, 1, 0], paths[0, 2], paths[0, 3, 0] = 0, (0, 1), 1
    cluster = table(np.array([1.0, 10.0]), np.zeros(2), paths)
    times = finish_times(cluster, [0, 0, 0], [1, 2, 3], [0.5, 0.5, 9.5], [0, 0, 0])
    np.testing.assert_allclose(times, [1, 1, 1], rtol=EXACT)


def test_one_message_among_a_thousand_that_ends_makes_the_others_faster_at_once():
    """Of a link that all share the ends are known: the least of what is left, times those left.

    Each end changes the rates by a thousandth, so that rates which are kept while they are nearly
    right would add up to much.
    """
    count = 1000
    sizes = np.arange(1, count + 1) * 1e3
    times = finish_times(star(count + 1, 1e6, 0.0), np.arange(count), [count] * count, sizes,
                         np.zeros(count))  # fmt: skip
    sharing = count - np.arange(count)
    np.testing.assert_allclose(times, np.cumsum(1e3 * sharing) / 1e6, rtol=EXACT)


@st.composite
def networks(draw, largest=8):
    """Devices with random paths, of any number of hops, over a few links."""
    devices, links = draw(st.integers(2, 5)), draw(st.integers(1, largest))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    bandwidth = rng.choice([1.0, 2.0, 3.5, 10.0], links) * rng.choice([1e3, 1e6])
    bandwidth[rng.random(links) < 0.1] = np.inf
    paths = np.full((devices, devices, links), NO_LINK, np.int32)
    for a in range(devices):
        for b in range(devices):
            if a != b:
                hops = rng.integers(1, links + 1)
                paths[a, b, :hops] = rng.permutation(links)[:hops]
    return table(bandwidth, rng.choice([0.0, 1e-3, 5e-2], links), paths)


@st.composite
def flow_sets(draw, most=14):
    """A network, and messages on it: many equal in size or start, some of no bytes."""
    cluster = draw(networks())
    count = draw(st.integers(1, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    src, dst = rng.integers(0, cluster.devices, (2, count))
    nbytes = rng.choice([0, 1e3, 1e5, rng.integers(1, 1e6)], count).astype(float)
    return cluster, src, dst, nbytes, rng.choice([0.0, 0.1, rng.random()], count)


@given(flow_sets())
@settings(max_examples=150, deadline=None)
def test_the_times_are_those_of_the_plain_model(case):
    np.testing.assert_allclose(finish_times(*case), oracle.finish_times(*case), rtol=EXACT)


@given(flow_sets(), st.floats(0.01, 100))
@settings(max_examples=50, deadline=None)
def test_rates_times_k_are_transfer_times_over_k(case, k):
    cluster, src, dst, nbytes, start = case
    links = cluster.links
    at_once = replace(
        cluster, links=Links(links.names, links.bandwidth, np.zeros(len(links.names)))
    )
    faster = replace(
        cluster, links=Links(links.names, k * links.bandwidth, np.zeros(len(links.names)))
    )
    times = finish_times(at_once, src, dst, nbytes, start)
    np.testing.assert_allclose(
        finish_times(faster, src, dst, nbytes, start / k), times / k, rtol=EXACT
    )


@given(flow_sets(), st.randoms())
@settings(max_examples=50, deadline=None)
def test_other_names_of_hosts_and_links_are_the_same_times(case, random):
    cluster, src, dst, nbytes, start = case
    times = finish_times(*case)
    there = np.array(random.sample(range(cluster.devices), cluster.devices))
    links = len(cluster.links.names)
    number = np.array(random.sample(range(links), links))
    every = np.arange(cluster.devices)
    pairs = np.meshgrid(every, every, indexing="ij")
    old = cluster.paths(pairs[0].ravel(), pairs[1].ravel()).reshape(*pairs[0].shape, -1)
    paths = np.full_like(old, NO_LINK)
    paths[np.ix_(there, there)] = np.where(old == NO_LINK, NO_LINK, number[old])
    bandwidth, latency = np.empty((2, links))
    bandwidth[number], latency[number] = cluster.links.bandwidth, cluster.links.latency
    renamed = table(bandwidth, latency, paths)
    order = np.array(random.sample(range(src.size), src.size))
    again = finish_times(renamed, there[src], there[dst], nbytes, start)
    np.testing.assert_allclose(again, times, rtol=EXACT)
    shuffled = finish_times(cluster, src[order], dst[order], nbytes[order], start[order])
    np.testing.assert_allclose(shuffled, times[order], rtol=EXACT)


@given(flow_sets())
@settings(max_examples=50, deadline=None)
def test_all_bytes_come_over_each_link_and_none_carries_more_than_it_can(case):
    cluster, src, dst, nbytes, _ = case
    times, traffic = run_flows(*case)
    want = np.zeros(len(cluster.links.names))
    for path, size in zip(cluster.paths(src, dst), nbytes, strict=True):
        want[path[path != NO_LINK]] += size
    np.testing.assert_allclose(traffic.link_bytes, want, rtol=EXACT)
    series = traffic.link_series
    np.testing.assert_allclose(series.nbytes.sum(axis=0), want[series.links], rtol=EXACT)
    assert set(np.flatnonzero(want)) <= set(series.links)
    assert (series.utilisation <= 1 + EXACT).all()
    assert len(series.nbytes) <= 256
    assert series.width * len(series.nbytes) >= times.max() * (1 - EXACT)


@given(flow_sets(), st.floats(0.0, 1.0))
@settings(max_examples=100, deadline=None)
def test_rates_are_max_min_fair(case, moment):
    """Every message has a link that is full and on which no other is faster."""
    cluster, src, dst, nbytes, start = case
    rates, paths = rates_at(cluster, src, dst, nbytes, start, moment)
    finite = [[k for k in path if np.isfinite(cluster.links.bandwidth[k])] for path in paths]
    used = np.zeros(len(cluster.links.names))
    for path, rate in zip(finite, rates, strict=True):
        used[path] += rate
    bandwidth = cluster.links.bandwidth
    assert (used <= bandwidth * (1 + 1e-6)).all()
    for path, rate in zip(finite, rates, strict=True):
        assert any(
            used[k] >= bandwidth[k] * (1 - 1e-6)
            and all(r <= rate * (1 + 1e-6) for p, r in zip(finite, rates, strict=True) if k in p)
            for k in path
        )


def rates_at(cluster, src, dst, nbytes, start, moment):
    """The rates of the messages under way at a moment, and their links."""
    traffic = NetworkSimulator(cluster)
    traffic.send_all(src, dst, nbytes, start)
    while traffic.advance(moment):
        pass
    flows = traffic._network.flows
    flowing = flows[flows["state"] == FLOWING]
    paths = cluster.paths(*flowing["device"].T)
    return flowing["rate"], [path[path != NO_LINK] for path in paths]


@pytest.mark.parametrize(
    ("src", "dst", "nbytes", "start", "named"),
    [
        ([0, 1], [1, 2], [1, np.nan], [0, 0], "message 1 has nan bytes"),
        ([0], [1], [-1], [0], "message 0 has -1 bytes"),
        ([0], [1], [np.inf], [0], "message 0 has inf bytes"),
        ([0, 0], [1, 1], [1, 1], [0, -2], "message 1 starts at -2 s"),
        ([0], [1], [1], [np.nan], "message 0 starts at nan s"),
        ([0], [4], [1], [0], "message 0 goes from device 0 to 4"),
        ([-1], [0], [1], [0], "message 0 goes from device -1 to 0"),
    ],
)
def test_a_message_that_cannot_be_is_refused(src, dst, nbytes, start, named):
    with pytest.raises(UsageError, match=named):
        finish_times(star(4), src, dst, nbytes, start)


def test_one_link_among_others_that_cannot_be_is_named():
    good = star(2)
    links = replace(good.links, bandwidth=np.array([1.0, 1.0, -1.0, 1.0]))
    with pytest.raises(UsageError, match="the link down0 of test has a bandwidth of -1"):
        finish_times(replace(good, links=links), [0], [1], [1], [0])


@pytest.mark.parametrize(
    ("bandwidth", "latency", "named"),
    [
        (np.nan, 0.0, "up0 of test has a bandwidth of nan"),
        (0.0, 0.0, "bandwidth of 0"),
        (-1.0, 0.0, "bandwidth of -1"),
        (1.0, -1e-6, "latency of -1e-06"),
        (1.0, np.nan, "latency of nan"),
        (1.0, np.inf, "latency of inf"),
    ],
)
def test_a_link_that_cannot_be_is_refused(bandwidth, latency, named):
    with pytest.raises(UsageError, match=named):
        finish_times(star(2, bandwidth, latency), [0], [1], [1], [0])


def test_unfair_sharing_changes_who_ends_first_but_not_the_last_of_all() -> None:
    fair = star(8, 1e9, 0.0)
    uneven = replace(fair, unfairness=0.25)
    sends = (range(1, 8), [0] * 7, [1e9] * 7, [0] * 7)
    assert finish_times(fair, *sends).tolist() == pytest.approx([7.0] * 7)
    ends = finish_times(uneven, *sends)
    assert ends.max() == pytest.approx(7.0, rel=1e-9)
    assert 7 / 1.25 <= ends.min() < 6.5
    alone = finish_times(uneven, [1, 2], [3, 4], [1e9, 1e9], [0, 0])
    assert alone.tolist() == pytest.approx([1.0, 1.0])
