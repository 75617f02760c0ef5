"""What NCCL's calls take: the measured tables, the fit, and what must hold of any network."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from steptime.cluster import cluster_named, parse_cluster, preset_names
from steptime.cluster.what_if import ideal, parse_what_if, what_if
from steptime.errors import UsageError
from steptime.simulate.nccl import (
    Network,
    call_seconds,
    choices,
    held_share,
    memory_bytes,
    message_seconds,
    network_of,
)
from steptime.simulate.nccl.constants import constants
from steptime.simulate.nccl.tuning import KINDS

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import nccl_tables as judged

PLAIN = Network(host_devices=4, inside=100e9, between=10e9, inside_s=1e-6, between_s=5e-6)
POD = network_of(cluster_named("dgx-h100-pod"))


def longs(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def seconds(network: Network, kind: str, nbytes: float, ranks: int, stride: int = 1) -> float:
    return float(call_seconds(network, kind, np.array([nbytes]), longs(ranks), longs(stride))[0])


def quickest(network: Network, nbytes: float, ranks: int, hosts: int) -> str:
    each = choices(network, "all_reduce", np.array([nbytes]), longs(ranks), longs(hosts))
    return min(each, key=lambda name: each[name][0])


def test_bandwidths_of_the_measured_tables_are_met() -> None:
    fitted = [table for table in judged.tables() if table.fitted]
    found = np.abs(judged.errors(fitted, constants()))
    assert np.median(found) <= 0.06
    for system in judged.SYSTEMS:
        own = [table for table in fitted if table.system == system]
        assert np.median(np.abs(judged.errors(own, constants()))) <= 0.10, system


def test_rows_that_no_constant_is_fitted_to_are_met_within_a_fifth() -> None:
    checks = [table for table in judged.tables() if not table.fitted]
    assert np.median(np.abs(judged.errors(checks, constants()))) <= 0.20
    h200 = [table for table in checks if table.system == "8 H200"]
    assert np.abs(judged.errors(h200, constants())).max() <= 0.05


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_shipped_constants_are_those_that_the_fit_finds() -> None:
    found = judged.fit([table for table in judged.tables() if table.fitted])
    assert found.keys() == {one.name for one in constants().values() if one.basis == "fitted"}
    for name, value in found.items():
        assert constants()[name].number == pytest.approx(value, rel=2e-3), name


def test_every_constant_says_what_it_means_and_where_it_is_from() -> None:
    for one in constants().values():
        assert one.meaning, one.name
        assert one.source, one.name
        assert one.basis in ("published", "fitted")


def test_nccl_goes_from_flags_over_rings_to_the_switch_as_calls_grow() -> None:
    assert [quickest(POD, size, 8, 1) for size in (1e5, 16e6, 1e9)] == [
        "ring LL",
        "ring LL128",
        "NVLS",
    ]
    assert quickest(POD, 1e9, 4, 1) == "ring Simple"  # the switch serves five ranks or more
    assert quickest(network_of(cluster_named("dgx-a100")), 1e9, 8, 1) == "ring Simple"
    assert quickest(POD, 1e6, 256, 32) == "tree LL128"


def test_without_trees_two_hosts_sum_as_fast_as_a_ring_lets_them() -> None:
    pod = network_of(cluster_named("dgx-a100-pod"))
    assert pod.library is not None
    rings = replace(pod, library=replace(pod.library, trees=False))
    assert quickest(pod, 1e9, 16, 2) == "tree Simple"
    assert quickest(rings, 1e9, 16, 2) == "ring Simple"
    wire = pod.library.wire * 8
    assert 1e9 / seconds(rings, "all_reduce", 1e9, 16) == pytest.approx(wire * 16 / 30, rel=0.1)


def test_ll128_does_not_cross_a_network_that_reorders_writes() -> None:
    text = """
[device]
name = "A100"
flops = { bf16 = "312TFLOP/s" }
memory = "80GB"
memory_bandwidth = "2TB/s"
[host]
count = 2
devices = 8
[inside]
kind = "switch"
bandwidth = "232GB/s"
latency = "3us"
[nic]
per_host = 4
bandwidth = "12.5GB/s"
latency = "2.5us"
[network]
kind = "switch"
[nccl]
generation = "ampere"
network = "efa_without_rdma_write"
"""
    network = network_of(parse_cluster(text, "p4de"))
    assert network.between == pytest.approx(6.25e9)  # four NICs for eight devices
    each = choices(network, "all_reduce", np.array([64e6]), longs(16), longs(2))
    assert np.isinf(each["tree LL128"]).all()
    assert np.isfinite(each["tree Simple"]).all()
    with pytest.raises(UsageError, match=r"nccl\.generation"):
        parse_cluster(text.replace("ampere", "amper"), "p4de")


@pytest.mark.parametrize("preset", preset_names())
@pytest.mark.parametrize("kind", [*KINDS, "barrier"])
def test_more_bytes_and_slower_links_never_take_less(preset: str, kind: str) -> None:
    cluster = cluster_named(preset)
    sizes = 2.0 ** np.arange(0, 36)
    slow = what_if(cluster, parse_what_if("bandwidth=0.5x,latency=2x"))
    for ranks, stride in ((2, 1), (5, 1), (8, 1), (16, 1), (4, 8), (3, 4)):
        many = np.full(sizes.size, ranks), np.full(sizes.size, stride)
        found = call_seconds(network_of(cluster), kind, sizes, *many)
        assert np.isfinite(found).all()
        assert (found > 0).all()
        assert (np.diff(found) >= 0).all()
        assert (call_seconds(network_of(slow), kind, sizes, *many) >= found).all()
        alone = call_seconds(network_of(cluster), kind, sizes, np.ones_like(many[0]), many[1])
        assert (alone == 0).all()


def test_no_call_beats_the_links_that_its_bytes_must_take() -> None:
    for ranks, stride, host in ((8, 1, 1), (64, 1, 8), (32, 8, 1)):
        near = max(1, min(ranks, 8 // stride))
        nbytes = 8e9
        out = nbytes * (ranks - 1) / ranks / ranks * near if ranks > near else 0.0
        least = out / (near * 50e9)
        for kind in ("all_gather", "all_to_all"):
            assert seconds(POD, kind, nbytes, ranks, stride) >= least, (host, kind)


def test_a_group_of_one_rank_a_host_has_one_nic_and_of_a_whole_host_eight() -> None:
    apart, whole = seconds(POD, "all_gather", 8e9, 8, 8), seconds(POD, "all_gather", 8e9, 64)
    assert apart == pytest.approx(8e9 * 7 / 8 / 48e9, rel=0.06)
    assert whole == pytest.approx(8e9 * 63 / 64 / 366e9, rel=0.06)


@pytest.mark.parametrize(("ranks", "away"), [(16, 8 / 16), (24, 16 / 24)])
def test_what_goes_to_ranks_of_other_hosts_takes_a_nic_of_its_own_each(ranks, away) -> None:
    assert seconds(POD, "all_to_all", 8e9, ranks) == pytest.approx(away * 8e9 / 48e9, rel=0.06)


def test_without_a_library_calls_are_rings_over_the_links() -> None:
    assert seconds(PLAIN, "all_reduce", 4e9, 4) == pytest.approx(2 * 3e9 / 100e9 + 6e-6)
    assert seconds(PLAIN, "all_gather", 8e9, 8) == pytest.approx(7e9 / 40e9 + 6e-6 + 5e-6)
    assert seconds(PLAIN, "all_to_all", 8e9, 8) == pytest.approx(4e9 / 10e9 + 11e-6, rel=1e-3)
    assert seconds(PLAIN, "broadcast", 1e9, 4) == pytest.approx(1e9 / 100e9 + 3e-6)


def test_messages_go_to_a_neighbour_within_or_beyond_the_host() -> None:
    taken = message_seconds(POD, np.array([1e9, 1e9]), longs(1, 8))
    assert taken[0] == pytest.approx(1e9 / 366e9, rel=0.1)
    assert taken[1] == pytest.approx(1e9 / 48e9, rel=0.01)
    assert message_seconds(PLAIN, np.array([1e9]), longs(4))[0] == pytest.approx(0.1 + 5e-6)


def test_an_unknown_call_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no call 'all_sum'"):
        seconds(POD, "all_sum", 1e6, 8)


def test_an_ideal_network_costs_nothing_whatever_its_library() -> None:
    network = network_of(ideal(cluster_named("dgx-h100-pod")))
    assert network.library is None
    assert seconds(network, "all_reduce", 1e9, 64) == 0


def test_a_call_holds_multiprocessors_as_its_rate_takes() -> None:
    within, across = held_share(POD, "all_reduce", longs(8, 64), longs(1, 8))
    assert within == pytest.approx(32 / 132)
    assert 2 / 132 <= across <= 6 / 132  # one NIC
    alone = held_share(POD, "all_reduce", longs(1), longs(1))
    assert alone[0] == 0
    assert held_share(PLAIN, "all_reduce", longs(8), longs(1))[0] == 0


def test_a_ring_reads_two_bytes_and_writes_one_to_reduce() -> None:
    moved = memory_bytes("reduce_scatter", np.array([8e9]), longs(8))
    assert moved[0] == pytest.approx(3 * 7e9)
    both = memory_bytes("all_gather", np.array([8e9]), longs(8)) + moved
    assert memory_bytes("all_reduce", np.array([8e9]), longs(8)) == pytest.approx(both)


def test_pcie_has_neither_ll128_nor_a_switch_that_adds_up() -> None:
    network = network_of(cluster_named("pcie-host-bridge-8"))
    each = choices(network, "all_reduce", np.array([64e6]), longs(8), longs(1))
    assert np.isinf(each["ring LL128"]).all()
    assert np.isinf(each["NVLS"]).all()
    assert network.inside == 10e9  # between the sockets, the slowest of the ring


def test_latencies_scale_with_those_of_the_links() -> None:
    cluster = cluster_named("dgx-h100")
    none = network_of(what_if(cluster, parse_what_if("latency=0")))
    assert none.library is not None
    assert (none.library.ring.near == 0).all()
    assert network_of(replace(cluster, nccl=None)).library is None
