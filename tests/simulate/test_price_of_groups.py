"""What a collective takes on many groups: which are of one shape, and very long rings."""

from dataclasses import replace

import numpy as np
import pytest

from simulate.networks import racks, star
from simulate.programs import collective, program, recv, send
from steptime.collectives import algorithm_named, schedule
from steptime.collectives import algorithms as all_algorithms
from steptime.collectives.price import price, time
from steptime.errors import UsageError
from steptime.program import Call, match_calls
from steptime.simulate import price as prices
from steptime.simulate.carry import carry
from steptime.simulate.choice import cheapest, chosen
from steptime.simulate.load import load
from steptime.simulate.plan import make_plan
from steptime.simulate.step import simulate

RING = schedule(algorithm_named("all_reduce", "ring"), 4)
NBYTES = 1_000_000


def of_same_shape(cluster, groups):
    kinds = prices.link_kinds(cluster)
    sent, groups = prices.pairs(RING, NBYTES), np.array(groups)
    rows = cluster.paths(groups[:, sent.src].ravel(), groups[:, sent.dst].ravel())
    return prices.shapes(kinds, rows.reshape(len(groups), -1)).tolist()


def test_groups_at_the_same_places_of_racks_are_of_one_shape():
    cluster = racks(4, 4)
    inside = [[0, 1, 2, 3], [7, 6, 5, 4]]
    across = [[0, 1, 4, 5], [8, 9, 14, 15], [0, 1, 5, 4]]
    between = [[0, 4, 8, 12], [3, 7, 15, 11]]
    assert of_same_shape(cluster, inside + across + between) == [0, 0, 2, 2, 2, 5, 5]
    # in another order more messages cross from rack to rack
    assert of_same_shape(cluster, [[0, 1, 4, 5], [0, 4, 1, 5]]) == [0, 1]


def test_groups_on_links_of_other_figures_are_not_of_one_shape():
    cluster = star(12)
    bandwidth, latency = cluster.links.bandwidth.copy(), cluster.links.latency.copy()
    bandwidth[1], latency[12 + 9] = 1e9, 1e-3
    links = replace(cluster.links, bandwidth=bandwidth, latency=latency)
    groups = [[4, 5, 6, 7], [0, 1, 2, 3], [8, 9, 10, 11], [3, 4, 5, 6]]
    assert of_same_shape(replace(cluster, links=links), groups) == [0, 1, 2, 0]


@pytest.mark.parametrize("one", all_algorithms("all_reduce").values(), ids=lambda a: a.name)
@pytest.mark.parametrize("nbytes", [8, 10_000_000])
def test_no_schedule_takes_less_than_its_bound(one, nbytes):
    cluster = racks(4, 4, trunk=30e9)
    groups = np.arange(16).reshape(2, 8)
    offer = prices.offer(cluster, schedule(one, 8), groups, nbytes)
    taken = prices.group_seconds(offer, prices.link_kinds(cluster))
    assert 0 < offer.least <= taken.max() * (1 + 1e-9)


@pytest.mark.parametrize("ranks", [2, 5, 8])
def test_the_rounds_of_pairs_are_those_of_the_busiest_rank(ranks):
    for kind in ("all_reduce", "broadcast", "gather", "scatter", "reduce", "all_to_all"):
        for one in all_algorithms(kind).values():
            if one.serves(ranks):
                made = schedule(one, ranks, root=ranks - 1, blocks=3)
                takes_part = [0] * ranks
                for transfers in made.rounds():
                    sent = transfers[transfers["src"] != transfers["dst"]]
                    for rank in {*sent["src"].tolist(), *sent["dst"].tolist()}:
                        takes_part[rank] += 1
                assert prices.pairs(made, NBYTES).rounds == max(takes_part), one.name


@pytest.mark.parametrize("nbytes", [8, 10_000_000])
def test_the_cheapest_is_the_fastest_on_the_slowest_group_of_all_that_serve(nbytes):
    """With two ranks on each host, and one group that has a slow device's link."""
    cluster = racks(4, 4, trunk=3e9)
    bandwidth = cluster.links.bandwidth.copy()
    bandwidth[5] = 1e9
    cluster = replace(cluster, links=replace(cluster.links, bandwidth=bandwidth))
    groups, kinds = np.array([[0, 1, 4, 5], [8, 9, 12, 13]], np.int32), prices.link_kinds(cluster)
    call = Call(kind="all_reduce", axes=("data",), nbytes=nbytes)
    taken = {
        one.name: chosen(cluster, kinds, call, one.name, groups, blocks=1, priced=True)[1].max()
        for one in all_algorithms("all_reduce").values()
        if one.serves(4) and one.name != "flat"
    }
    offers, seconds = cheapest(cluster, kinds, call, groups, blocks=1)
    assert seconds.max() == pytest.approx(min(taken.values()), rel=1e-12)
    assert taken[offers[0][1].schedule.algorithm] == pytest.approx(seconds.max(), rel=1e-12)


def test_many_groups_are_compared_a_few_at_a_time(monkeypatch):
    cluster = racks(4, 4)
    groups = [[0, 1, 2, 3], [0, 4, 8, 12], [4, 5, 6, 7], [1, 5, 9, 13]]
    monkeypatch.setattr(prices, "_AT_ONCE", 1)
    assert of_same_shape(cluster, groups) == [0, 1, 0, 1]


def test_groups_that_share_no_link_take_what_they_take_alone():
    cluster = racks(4, 4, trunk=10e9)
    groups = np.array([[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 12, 13]])
    offer = prices.offer(cluster, RING, groups, NBYTES)
    taken = prices.group_seconds(offer, prices.link_kinds(cluster))
    for group, seconds in zip(groups, taken, strict=True):
        assert seconds == pytest.approx(carry(RING, cluster, group, NBYTES).seconds, rel=1e-9)


@pytest.mark.parametrize("fidelity", ["message", "collective"])
def test_groups_that_share_a_trunk_share_its_bandwidth(fidelity):
    # three rings of four ranks, one a rack, with 8 GB/s out of each rack
    cluster = racks(4, 3, 25e9, 5e-6, trunk=8e9)
    ops = (collective("r", "all_reduce", 4_000_000, algorithm="ring", stream="compute"),)
    found = simulate(program(ops, tensor=3, data=4), cluster, fidelity=fidelity, steps=1)
    assert found.step_s == pytest.approx(6 * (3 * 1_000_000 / 8e9 + 15e-6))


@pytest.mark.parametrize("fidelity", ["message", "collective"])
def test_messages_that_share_a_trunk_share_its_bandwidth(fidelity):
    cluster = racks(2, 3, 25e9, 5e-6, trunk=8e9)
    lists = (
        (send("s", 1_000_000, axis="pipe", stream="compute"),),
        (recv("r", 1_000_000, axis="pipe", stream="compute"),),
    )
    both = program(*lists, class_of=[0, 0, 0, 1, 1, 1], tensor=3, pipe=2)
    found = simulate(both, cluster, fidelity=fidelity, steps=1)
    assert found.step_s == pytest.approx(3 * 1_000_000 / 8e9 + 15e-6)


@pytest.mark.parametrize("name", ["ring", "rabenseifner", "double_tree", "circulant"])
def test_pairs_add_up_to_the_price(name):
    one = schedule(algorithm_named("all_reduce", name), 6, blocks=3)
    sent, cost = prices.pairs(one, NBYTES), price(one, NBYTES)
    assert np.bincount(sent.src, sent.nbytes).tolist() == cost.bytes_sent.tolist()
    assert np.bincount(sent.dst, sent.nbytes).tolist() == cost.bytes_received.tolist()
    assert sent.messages == cost.messages_sent.sum()


@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "all_gather"])
def test_of_a_long_ring_the_first_rounds_tell_the_rest(monkeypatch, kind):
    ring = schedule(algorithm_named(kind, "ring"), 80)
    nbytes = 80 * 1000
    star_s = time(ring, nbytes, 1e-5, 1 / 25e9, 0.0)
    cluster = racks(10, 8, trunk=10e9)
    whole = carry(ring, cluster, np.arange(80), nbytes).seconds
    sent = prices.pairs(ring, nbytes)
    monkeypatch.setattr(prices, "MOST_TRANSFERS", 5500)
    few = prices.pairs(ring, nbytes)
    assert prices.seconds(ring, star(80), np.arange(80), nbytes) == pytest.approx(star_s, rel=1e-9)
    found = prices.seconds(ring, cluster, np.arange(80), nbytes)
    assert found == pytest.approx(whole, rel=1e-3)
    assert few.messages == pytest.approx(sent.messages)
    assert few.nbytes == pytest.approx(sent.nbytes)


def test_too_many_transfers_are_refused_if_named_and_else_not_chosen(monkeypatch):
    monkeypatch.setattr(prices, "MOST_TRANSFERS", 100)
    cluster = star(16)
    ranks = np.arange(16, dtype=np.int32)

    def planned(name):
        ops = (collective("r", "reduce_scatter", NBYTES, algorithm=name),)
        return make_plan(cluster, match_calls(program(ops, data=16)), ranks, {}, priced=True)

    words = "'pairwise' on 16 ranks makes more than 100 transfers"
    with pytest.raises(UsageError, match=words):
        planned("pairwise")
    (assignment,) = planned("").assignments
    assert assignment.sent.messages <= 100


def test_the_load_of_links_is_what_the_messages_carry():
    cluster = racks(2, 4)
    ranks = np.array([0, 5, 1, 4, 2, 7, 3, 6], np.int32)
    ops = (
        collective("r", "all_reduce", NBYTES, group=("tensor",), algorithm="rabenseifner"),
        collective("g", "all_gather", NBYTES, group=("data",), algorithm="ring"),
        collective("g", "all_gather", NBYTES, group=("data",), algorithm="ring"),
    )
    matching = match_calls(program(ops, tensor=2, data=4))
    plan = make_plan(cluster, matching, ranks, {}, priced=False)
    found = load(plan, cluster, ranks)
    expected = np.zeros(cluster.links.bandwidth.size)
    messages = 0
    for assignment in plan.assignments:
        for devices in np.repeat(assignment.devices, assignment.times, axis=0):
            carried = carry(assignment.schedule, cluster, devices, NBYTES)
            expected += carried.link_bytes
            messages += carried.messages
    assert found.links == pytest.approx(expected)
    assert found.messages == messages
    assert found.sent.sum() == found.received.sum()


def test_two_level_follows_how_each_group_lies_on_hosts():
    cluster = racks(4, 4)
    cluster = replace(cluster, host_of=np.array([0, 0, 0, 0, *[1, 2] * 2, *[3, 3, 4, 4] * 2]))
    ops = (collective("r", "all_reduce", NBYTES, algorithm="two_level"),)
    matching = match_calls(program(ops, data=4, tensor=4))
    devices = np.arange(16, dtype=np.int32)
    plan = make_plan(cluster, matching, devices, {}, priced=True)
    hosts = {assignment.schedule.hosts: assignment.times.sum() for assignment in plan.assignments}
    assert hosts == {(0, 0, 0, 0): 1, (0, 1, 0, 1): 1, (0, 0, 1, 1): 2}
    assert (np.concatenate(plan.seconds) > 0).all()
