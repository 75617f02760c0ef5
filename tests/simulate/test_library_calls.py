"""Steps whose collectives are priced as NCCL's calls."""

from dataclasses import replace

import numpy as np
import pytest

from simulate.programs import collective, program
from steptime.cluster import CallTimes, cluster_named
from steptime.program import Wait
from steptime.simulate.library_calls import ring_pairs
from steptime.simulate.nccl import call_seconds, network_of
from steptime.simulate.simulation import Simulation
from steptime.simulate.step import simulate

POD = cluster_named("dgx-h100-pod")
NETWORK = network_of(POD)
NBYTES = 64_000_000


def one_call(
    kind: str, cluster=POD, fidelity="collective", algorithm="", **axes: int
) -> Simulation:
    call = collective("call", kind, NBYTES, algorithm=algorithm)
    ops = (call, Wait(name="w", after=(0,)))
    return simulate(program(ops, **axes), cluster, fidelity=fidelity, steps=1)


def nccl_seconds(kind: str, ranks: int, stride: int) -> float:
    ends = np.array([ranks]), np.array([stride])
    return float(call_seconds(NETWORK, kind, np.array([float(NBYTES)]), *ends)[0])


@pytest.mark.parametrize(
    "kind",
    ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce"],
)
def test_a_call_takes_what_nccl_does(kind):
    run = one_call(kind, data=16)
    assert run.library == "NCCL"
    assert run.step_s[-1] == pytest.approx(nccl_seconds(kind, 16, 1))


def test_groups_across_hosts_each_have_a_nic():
    both = one_call("all_reduce", tensor=8, data=4)
    assert both.step_s[-1] == pytest.approx(nccl_seconds("all_reduce", 4, 8))


def test_rings_leave_a_host_by_all_its_nics():
    run = one_call("all_reduce", data=16)
    assert run.bytes_sent == pytest.approx(np.full(16, 2 * NBYTES * 15 / 16))
    assert run.bytes_received == pytest.approx(run.bytes_sent)
    names = [name for name, used in zip(POD.links.names, run.link_bytes, strict=True) if used]
    assert sum(name.startswith("host0.nic") for name in names) == 8


def test_an_algorithm_by_name_other_clusters_and_messages_are_simulated():
    named = one_call("all_reduce", algorithm="ring", data=16)
    other = one_call("all_reduce", cluster=replace(POD, nccl=None), data=16)
    by_message = one_call("all_reduce", fidelity="message", data=16)
    assert (named.library, other.library, by_message.library) == ("", "", "")
    assert named.step_s[-1] > other.step_s[-1]


def test_measured_calls_go_before_nccls():
    times = CallTimes(ranks=16, algorithm="ring", sizes=(1e6, 1e9), seconds=(1.0, 2.0))
    run = one_call("all_reduce", cluster=replace(POD, calls={"all_reduce": (times,)}), data=16)
    assert run.library == ""
    assert run.step_s[-1] == pytest.approx(1.0 + 63 / 999, rel=1e-3)


def test_rings_of_uneven_hosts_are_one_ring():
    hosts = np.array([0, 0, 1, 1, 1], np.int32)
    sent = ring_pairs(hosts, 2.0, 5e6)
    assert sorted(zip(sent.src.tolist(), sent.dst.tolist(), strict=True)) == [
        (0, 1),
        (1, 2),
        (2, 3),
        (3, 4),
        (4, 0),
    ]
    assert sent.nbytes == pytest.approx(np.full(5, 8e6))
    apart = ring_pairs(np.array([0, 1, 2], np.int32), 1.0, 3e6)
    assert apart.nbytes == pytest.approx(np.full(3, 2e6))


def test_rings_of_even_hosts_go_on_in_the_same_place_of_the_next_host():
    """Two hosts of two: two rings, each of which goes one step within a host and one between."""
    sent = ring_pairs(np.array([0, 0, 1, 1], np.int32), 2.0, 8e6)
    bytes_of = dict(
        zip(zip(sent.src.tolist(), sent.dst.tolist(), strict=True), sent.nbytes, strict=True)
    )
    within, between = {(0, 1), (1, 0), (2, 3), (3, 2)}, {(0, 2), (1, 3), (2, 0), (3, 1)}
    assert bytes_of == pytest.approx(dict.fromkeys(within | between, 6e6))
    assert (sent.messages, sent.rounds) == (2 * 4 * 3, 2 * 3)
