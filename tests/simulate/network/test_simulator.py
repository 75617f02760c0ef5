"""Collectives and lone messages that are under way together."""

import tracemalloc
from dataclasses import replace
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulate import oracle
from simulate.network.test_flows import networks
from simulate.networks import racks, star
from steptime import host_memory
from steptime.collectives import algorithm_named, all_algorithms, schedule
from steptime.collectives.price import price
from steptime.errors import UsageError
from steptime.simulate.carry import carry
from steptime.simulate.network.simulator import Done, NetworkSimulator

EXACT = 1e-9
ALGORITHMS = all_algorithms()


@st.composite
def cases(draw):
    """A network, collectives on some of its devices, entered at any times, and lone messages."""
    cluster = draw(networks(largest=5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    object.__setattr__(cluster.device, "reduction", draw(st.sampled_from([inf, 1e5])))
    object.__setattr__(cluster, "send_buffer", draw(st.sampled_from([0.0, 0.0, 300.0, 3e4])))
    object.__setattr__(cluster, "unfairness", draw(st.sampled_from([0.0, 0.0, 0.3, 0.9])))
    collectives = []
    for chosen in draw(st.lists(st.sampled_from(ALGORITHMS), min_size=1, max_size=3)):
        ranks = draw(st.integers(1, 6))
        if chosen.serves(ranks):
            one = schedule(chosen, ranks, root=ranks - 1, blocks=2)
            devices = rng.integers(0, cluster.devices, ranks)
            enters = rng.choice([0.0, 0.0, 0.1, rng.random()], ranks)
            collectives.append((one, devices, int(rng.choice([0, 1000, 99_999])), enters))
    count = draw(st.integers(0, 3))
    lone = [
        (*map(int, rng.integers(0, cluster.devices, 2)), 1e4 * rng.integers(3), rng.random())
        for _ in range(count)
    ]
    return cluster, collectives, lone


@given(cases())
@settings(max_examples=120, deadline=None)
def test_collectives_and_messages_end_as_in_the_plain_model(case):
    cluster, collectives, lone = case
    ranks = [oracle.ranks_of(cluster, *one) for one in collectives]
    sent = [oracle.message(cluster, *row[:3]) for row in lone]
    for one, row in zip(sent, lone, strict=True):
        one.ready = row[3] + one.latency
    oracle.simulate(cluster, sent, [rank for group in ranks for rank in group])
    want = {}
    traffic = NetworkSimulator(cluster)
    for (one, devices, nbytes, enters), group in zip(collectives, ranks, strict=True):
        token = traffic.begin(one, devices, nbytes)
        for rank, at in enumerate(enters):
            traffic.enter(token, rank, at)
            want[token, rank] = group[rank].done
    for one, row in zip(sent, lone, strict=True):
        want[traffic.send(*row), -1] = one.done
    got, before = {}, 0.0
    while done := traffic.advance():
        assert done[0].at > before or not got
        assert {d.at for d in done} == {traffic.now}
        before = traffic.now
        got |= {(d.token, d.rank): d.at for d in done}
    assert got.keys() == want.keys()
    np.testing.assert_allclose([got[k] for k in want], list(want.values()), rtol=EXACT)


@given(cases())
@settings(max_examples=80, deadline=None)
def test_a_collective_alone_ends_as_the_engine_says(case):
    cluster, collectives, _ = case
    for one, devices, nbytes, enters in collectives:
        runs = []
        for keep in (False, True):  # what keeps messages goes by the engine
            traffic = NetworkSimulator(cluster, keep_messages=keep)
            token = traffic.begin(one, devices, nbytes)
            for rank, at in enumerate(enters):
                traffic.enter(token, rank, at)
            done = np.sort(traffic.finish(), order="rank")
            series = traffic.link_series
            carried = np.zeros(len(cluster.links.names))
            carried[series.links] = series.nbytes.sum(axis=0)
            assert traffic.messages == price(one, nbytes).messages_sent.sum()
            np.testing.assert_allclose(carried, traffic.link_bytes, rtol=EXACT)
            runs.append((done["at"], traffic.link_bytes, [traffic.now]))
        for one_run, other in zip(*runs, strict=True):
            np.testing.assert_allclose(one_run, other, rtol=EXACT)


def test_the_series_of_messages_under_way_has_what_they_carried_so_far_and_what_has_arrived():
    traffic = NetworkSimulator(star(4, bandwidth=1e9, latency=0.0))
    for src, nbytes in ((0, 1e6), (1, 4e6)):  # on links of their own
        traffic.send(src, src + 2, nbytes, 0.0)
    traffic.advance()
    assert traffic.advance(until=0.003) == []
    for _ in range(2):  # to look changes nothing
        series = traffic.link_series
        carried = dict(zip(series.links.tolist(), series.nbytes.sum(axis=0), strict=True))
        assert carried == pytest.approx({0: 1e6, 1: 3e6, 6: 1e6, 7: 3e6}, rel=EXACT)


def test_advance_stops_at_until_and_goes_on_from_there():
    traffic = NetworkSimulator(star(4, 1e9, 0.0))
    token = traffic.send(0, 1, 1e9, 0.0)
    assert traffic.advance(0.25) == []
    assert traffic.now == 0.25
    other = traffic.send(2, 1, 1e9, 0.5)  # shares the way down for the second half
    assert traffic.advance() == [Done(token, -1, pytest.approx(1.5))]
    assert traffic.advance() == [Done(other, -1, pytest.approx(2.0))]
    assert traffic.advance() == []
    assert traffic.now == 2.0
    assert traffic.advance(3.0) == []
    assert traffic.now == 3.0
    assert traffic.messages == 2


def test_all_that_is_done_at_one_instant_comes_together():
    traffic = NetworkSimulator(star(4, 1e9, 1e-6))
    tokens = [traffic.send(0, 1, 1e6, 0.0), traffic.send(2, 3, 1e6, 0.0)]
    assert {d.token for d in traffic.advance()} == set(tokens)


def test_a_collective_waits_for_the_rank_that_comes_last():
    one = schedule(algorithm_named("all_gather", "ring"), 4)
    traffic = NetworkSimulator(star(4, 1e9, 0.0))
    token = traffic.begin(one, range(4), 4_000_000)
    for rank in range(3):
        traffic.enter(token, rank, 0.0)
    assert traffic.advance(5.0) == []
    assert traffic.messages == 2  # from rank 0 to 1 and from 1 to 2
    traffic.enter(token, 3, 5.0)
    assert [d.rank for d in traffic.advance() + traffic.advance() + traffic.advance()]
    assert traffic.now == pytest.approx(5.003, rel=EXACT)


def test_the_room_of_collectives_that_are_done_is_used_again():
    one = schedule(algorithm_named("all_reduce", "ring"), 8)
    traffic = NetworkSimulator(star(8))
    sizes = []
    for _ in range(50):
        token = traffic.begin(one, range(8), 8000)
        for rank in range(8):
            traffic.enter(token, rank, traffic.now)
        assert traffic.finish()["rank"].size == 8
        network = traffic._network
        sizes.append((len(network.flows), len(network.parts), len(network.owners)))
    assert len(set(sizes[1:])) == 1
    assert traffic.messages == 50 * 8 * 14


def test_two_groups_on_one_trunk_share_it():
    one = schedule(algorithm_named("broadcast", "flat"), 2)
    cluster = racks(2, 2, 1e9, 0.0, trunk=1e9)
    traffic = NetworkSimulator(cluster)
    for devices in ([0, 2], [1, 3]):
        token = traffic.begin(one, devices, 1_000_000)
        traffic.enter(token, 0, 0.0)
        traffic.enter(token, 1, 0.0)
    done = traffic.advance()
    assert len(done) == 4
    assert traffic.now == pytest.approx(2e-3, rel=EXACT)
    series = traffic.link_series
    trunk = series.utilisation[:, list(series.links).index(8)]
    full = int(2e-3 / series.width)
    np.testing.assert_allclose(trunk[:full], 1.0, rtol=EXACT)


def test_messages_that_are_kept_tell_all():
    one = schedule(algorithm_named("all_reduce", "ring"), 5)
    result = carry(one, star(8), [7, 1, 2, 3, 4], 50_000, keep_messages=True)
    kept = result.kept
    assert kept.size == result.messages == 40
    np.testing.assert_array_equal(np.bincount(kept["round"]), 5)
    np.testing.assert_array_equal((kept["src"] + 1) % 5, kept["dst"])
    assert kept["src_device"][kept["src"] == 0].tolist() == [7] * 8
    assert kept["dst_device"][kept["dst"] == 0].tolist() == [7] * 8
    assert kept["bytes"].sum() == 8 * 50_000
    duration = kept["received"] - kept["sent"]
    np.testing.assert_allclose(duration, 1e-5 + kept["bytes"] / 25e9, rtol=EXACT)
    assert kept["received"].max() == result.seconds
    assert carry(one, star(8), range(5), 50_000).kept is None


@pytest.mark.parametrize("latency", [0.0, 0.5])
@pytest.mark.parametrize(
    ("kind", "name", "rounds", "reduced"),
    [
        ("broadcast", "flat", 3, 0),  # the root sends to one rank after the other
        ("reduce", "flat", 3, 3),  # and adds up what comes, one rank after the other
        ("all_reduce", "ring", 6, 3 / 4),
        ("all_gather", "ring", 3, 0),
    ],
)
def test_where_bytes_take_no_time_rounds_are_latencies_and_sums(
    latency, kind, name, rounds, reduced
):
    """Of four ranks; a rank adds up a million bytes in a second. Messages kept go by events."""
    one, there = schedule(algorithm_named(kind, name), 4), star(4, inf, latency, reduction=1e6)
    for kept in (False, True):
        result = carry(one, there, range(4), 1_000_000, keep_messages=kept)
        assert result.seconds == pytest.approx(rounds * 2 * latency + reduced, rel=EXACT)


@pytest.mark.parametrize("name", ["ring", "flat"])
def test_what_links_carry_over_time_is_all_that_they_carry_until_the_end(name):
    """The ring's messages never share a link; flat ones do."""
    one = schedule(algorithm_named("all_reduce", name), 5)
    result = carry(one, star(5), range(5), 50_000_000)
    series = result.link_series
    assert series.nbytes.sum(axis=0) == pytest.approx(result.link_bytes[series.links], rel=EXACT)
    assert series.width * (len(series.nbytes) - 1) <= result.seconds
    assert result.seconds <= series.width * len(series.nbytes)


def test_a_message_starts_when_both_of_its_ranks_have_come():
    network = NetworkSimulator(star(2, inf, 0.5))
    token = network.begin(schedule(algorithm_named("all_gather", "ring"), 2), [0, 1], 1000)
    for rank, at in enumerate((0.0, 5.0)):
        network.enter(token, rank, at)
    assert network.finish()["at"].tolist() == [6.0, 6.0]


def test_ranks_on_one_device_exchange_at_once():
    one = schedule(algorithm_named("all_reduce", "ring"), 4)
    result = carry(one, star(2), [0, 0, 0, 0], 1_000_000)
    assert result.seconds == 0
    assert result.messages == 24


def test_memory_grows_with_messages_under_way_not_with_all():
    def peak(ranks):
        one = schedule(algorithm_named("all_reduce", "ring"), ranks)
        tracemalloc.start()
        assert carry(one, star(ranks), np.arange(ranks), 1_000_000).messages > ranks * ranks
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    assert peak(512) < 3 * peak(128)  # of 16 times as many messages


def test_what_does_not_fit_into_memory_is_refused_before_any_work(monkeypatch):
    monkeypatch.setattr(host_memory, "available_bytes", lambda: 1e9)
    one = schedule(algorithm_named("all_to_all", "direct"), 4096)
    with pytest.raises(
        UsageError,
        match=r"a round of about 16,777,216 transfers.* GB of memory .* only 1.00 GB more",
    ):
        carry(one, star(4096), np.arange(4096), 1 << 30)


def test_impossible_times_and_devices_are_refused():
    one = schedule(algorithm_named("all_reduce", "ring"), 3)
    traffic = NetworkSimulator(star(3))
    with pytest.raises(UsageError, match="2 devices are given for 3 ranks"):
        traffic.begin(one, [0, 1], 8)
    with pytest.raises(UsageError, match="a rank is on device 3"):
        traffic.begin(one, [0, 1, 3], 8)
    token = traffic.begin(one, [0, 1, 2], 8)
    traffic.advance(1.0)
    for at in (0.5, np.nan, inf):
        traffic.enter(token, 0, at)
        with pytest.raises(UsageError, match=f"no rank can enter a collective at {at:g} s"):
            traffic.advance()


@pytest.mark.parametrize("wrong", [0, 2])
def test_one_impossible_time_among_others_is_refused(wrong):
    traffic = NetworkSimulator(star(3))
    token = traffic.begin(schedule(algorithm_named("all_reduce", "ring"), 3), [0, 1, 2], 8)
    for rank in range(3):
        traffic.enter(token, rank, inf if rank == wrong else 1.0)
    with pytest.raises(UsageError, match="no rank can enter a collective at inf s"):
        traffic.finish()


@pytest.mark.parametrize("held", [0, 1 << 19, 1 << 20, 1 << 22])
def test_a_sender_goes_on_when_its_socket_has_taken_the_rest(held):
    # Rank 0 sends to 2, then to 1; 2 passes it on to 3 when it has all of it. The second message
    # of 0 shares its link with what the socket holds of the first, which ends later by as much.
    nbytes, bandwidth = 1 << 20, 1e9
    cluster = replace(star(4, bandwidth, 0.0), send_buffer=float(held))
    plan = schedule(algorithm_named("broadcast", "binomial"), 4)
    seconds = carry(plan, cluster, np.arange(4), nbytes).seconds
    assert seconds == pytest.approx((2 * nbytes + min(held, nbytes)) / bandwidth, rel=EXACT)
