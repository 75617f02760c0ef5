"""Collectives on a star, where the time of each is known."""

import numpy as np
import pytest

from simulate.networks import star
from steptime.collectives import algorithm_named, all_algorithms, schedule
from steptime.collectives.price import price, time
from steptime.simulate.carry import carry

BANDWIDTH, LATENCY = 25e9, 5e-6
EXACT = 1e-9
RANKS = (*range(2, 18), 24, 31, 32, 33, 48, 63, 64)


def made(kind, name, ranks):
    return schedule(algorithm_named(kind, name), ranks, root=ranks // 3, blocks=4)


def carried(one, nbytes):
    return carry(one, star(one.ranks, BANDWIDTH, LATENCY), np.arange(one.ranks), nbytes)


@pytest.mark.parametrize(
    ("ranks", "milliseconds"), [(8, 7.14), (64, 9.135), (256, 13.06875), (1024, 28.4522)]
)
def test_a_ring_takes_what_other_simulators_say(ranks, milliseconds):
    result = carried(made("all_reduce", "ring", ranks), 100_000_000)
    closed = 2 * (ranks - 1) * (1e8 / ranks / BANDWIDTH + 2 * LATENCY)
    assert result.messages == 2 * (ranks - 1) * ranks
    assert result.seconds == pytest.approx(closed, rel=3e-6)  # chunks are whole bytes
    assert result.seconds == pytest.approx(milliseconds * 1e-3, rel=1e-5)


@pytest.mark.parametrize("chosen", all_algorithms(), ids=lambda a: f"{a.collective.name}/{a.name}")
@pytest.mark.parametrize("gamma", [pytest.param(0.0, marks=pytest.mark.slow), 1e-10])
def test_the_time_is_the_price_where_no_rank_sends_two_messages_at_once(chosen, gamma):
    for ranks in RANKS if gamma == 0 else RANKS[::4]:
        if not chosen.serves(ranks):
            continue
        one = made(chosen.collective.name, chosen.name, ranks)
        nbytes = 0 if chosen.collective.name == "barrier" else 100_003
        if price(one, nbytes).ports > 1:
            assert chosen.name in ("direct", "tree", "double_tree")
            continue
        want = time(one, nbytes, 2 * LATENCY, 1 / BANDWIDTH, gamma)
        cluster = star(ranks, BANDWIDTH, LATENCY, reduction=1 / gamma if gamma else np.inf)
        for keep in (False, True):  # what keeps messages goes by the engine
            result = carry(one, cluster, np.arange(ranks), nbytes, keep_messages=keep)
            assert result.seconds == pytest.approx(want, rel=EXACT), (ranks, keep)


@pytest.mark.parametrize("ranks", RANKS)
def test_all_to_all_at_once_fills_every_link(ranks):
    nbytes = ranks * 10_000
    result = carried(made("all_to_all", "direct", ranks), nbytes)
    share = (ranks - 1) * 10_000
    np.testing.assert_allclose(result.ends, 2 * LATENCY + share / BANDWIDTH, rtol=EXACT)
    np.testing.assert_allclose(result.link_bytes, share, rtol=EXACT)


@pytest.mark.parametrize("ranks", [3, 9, 64])
def test_flat_goes_at_the_speed_of_the_root(ranks):
    result = carried(made("reduce", "flat", ranks), 1_000_000)
    want = (ranks - 1) * (2 * LATENCY + 1e6 / BANDWIDTH)
    assert result.seconds == pytest.approx(want, rel=EXACT)
    assert result.link_bytes.max() == (ranks - 1) * 1e6
