"""Elasticities against steps whose dependence on the cluster is known in closed form."""

from dataclasses import replace

import numpy as np
import pytest

from simulate.networks import star
from steptime.cluster.files import parse_cluster
from steptime.simulate.sensitivity import link_kinds, probes, sensitivities

TWO_HOSTS = """
[device]
flops = { fp32 = "1TFLOP/s" }
memory = "1GB"
memory_bandwidth = "10GB/s"
[host]
count = 2
devices = 2
[inside]
kind = "switch"
bandwidth = "20GB/s"
latency = "1us"
[nic]
bandwidth = "10GB/s"
latency = "2us"
[network]
kind = "switch"
"""


def answers(cluster, link_bytes, busy, step_s):
    devices = np.arange(len(busy), dtype=np.int32)
    asked = probes(cluster, np.asarray(link_bytes, float), np.asarray(busy, float), devices)
    found = sensitivities(step_s(cluster), asked, step_s)
    return {(one.what, one.kind): one for one in found}


def test_elasticities_are_the_shares_of_the_step():
    """0.5 s of compute, 0.3 s of transfer and 0.2 s of latency: each saves its own share."""

    def step_s(cluster):
        transfer = 0.3 * 25e9 / cluster.links.bandwidth.min()
        return 0.5 / cluster.speed.min() + transfer + 0.2 * cluster.links.latency.max() / 5e-6

    found = answers(star(2), [1e9, 0, 0, 1e9], [0.5, 0.5], step_s)
    # 1 % more of a speed takes 1/1.01 of its time.
    assert found["all devices", "compute"].elasticity == pytest.approx(0.5, rel=0.02)
    assert found["all links", "bandwidth"].elasticity == pytest.approx(0.3, rel=0.02)
    assert found["all links", "latency"].elasticity == pytest.approx(0.2, rel=0.02)
    assert ("all devices", "reduction") not in found


def test_one_link_among_equals_is_asked_about_by_making_it_slower():
    found = answers(star(2), [1e9, 0, 0, 1e9], [1, 1], lambda c: 1e9 / c.links.bandwidth.min())
    assert found["up0", "bandwidth"].elasticity == pytest.approx(1, rel=0.02)
    assert not found["up0", "bandwidth"].faster
    assert ("up1", "bandwidth") not in found, "it carries nothing"


def test_the_straggler_is_asked_about_alone():
    slow = replace(star(4), speed=np.array([1.0, 1.0, 0.5, 1.0]))
    found = answers(slow, np.zeros(8), [1, 1, 2, 1], lambda c: float((1 / c.speed).max()))
    assert found["device of rank 2", "compute"].elasticity == pytest.approx(1, rel=0.02)
    assert len([what for what, _ in found if what.startswith("device of")]) == 1


def test_a_rate_of_reduction_is_asked_about_where_there_is_one():
    found = answers(
        star(2, reduction=1e9), np.zeros(4), [1, 1], lambda c: 1 + 1e9 / c.device.reduction
    )
    assert found["all devices", "reduction"].elasticity == pytest.approx(0.5, rel=0.02)


def test_links_of_one_kind_are_those_of_all_hosts_in_both_directions():
    cluster = parse_cluster(TWO_HOSTS, "two")
    kinds = dict(link_kinds(cluster))
    assert set(kinds) == {"all device links", "all NIC links"}
    assert sorted(np.concatenate(list(kinds.values()))) == list(range(cluster.links.latency.size))
    assert cluster.links.bandwidth[kinds["all NIC links"]] == pytest.approx(10e9)
    assert cluster.links.bandwidth[kinds["all device links"]] == pytest.approx(20e9)


def test_the_kind_that_bounds_is_found():
    cluster = parse_cluster(TWO_HOSTS, "two")
    nics = dict(link_kinds(cluster))["all NIC links"]

    def step_s(c):
        return 1 / (c.links.bandwidth[nics].min() / 10e9)

    found = answers(cluster, np.full(cluster.links.latency.size, 1e6), np.ones(4), step_s)
    assert found["all NIC links", "bandwidth"].elasticity == pytest.approx(1, rel=0.02)
    assert found["all device links", "bandwidth"].elasticity == pytest.approx(0, abs=1e-9)


def test_a_step_of_no_time_is_bound_by_nothing():
    found = answers(star(2), np.zeros(4), [0, 0], lambda _: 0.0)
    assert {one.elasticity for one in found.values()} == {0.0}
