"""The price against the closed forms of the literature."""

from fractions import Fraction

import numpy as np
import pytest

from steptime.collectives import (
    algorithm,
    algorithm_named,
    all_algorithms,
    schedule,
    send,
    together,
)
from steptime.collectives.price import price, round_ends, time, times

BLOCKS = 4


def log(p):
    """⌈log₂p⌉."""
    return (p - 1).bit_length()


def floor_log(p):
    return p.bit_length() - 1


def fold(p):
    """1 where p is no power of two."""
    return int(p & (p - 1) != 0)


def most(p):
    """(p - 1)/p."""
    return Fraction(p - 1, p)


def inner(p):
    """(m - 1)/m of the largest power of two m."""
    return most(1 << floor_log(p))


def hops(p):
    """Chunks that the Bruck all_to_all sends from each rank, in S."""
    return Fraction(sum(d.bit_count() for d in range(p)), p)


CLOSED_FORMS = {
    # alpha, beta in S, gamma in S
    "all_reduce/flat": lambda p: (2 * (p - 1), 2 * (p - 1), p - 1),
    "all_reduce/binomial": lambda p: (2 * log(p), 2 * log(p), log(p)),
    "all_reduce/recursive_doubling": lambda p: (
        floor_log(p) + 2 * fold(p),
        floor_log(p) + 2 * fold(p),
        floor_log(p) + fold(p),
    ),
    "all_reduce/ring": lambda p: (2 * (p - 1), 2 * most(p), most(p)),
    "all_reduce/rabenseifner": lambda p: (
        2 * floor_log(p) + 2 * fold(p),
        2 * inner(p) + 2 * fold(p),
        inner(p) + fold(p),
    ),
    "all_reduce/circulant": lambda p: (2 * log(p), 2 * most(p), most(p)),
    "reduce_scatter/ring": lambda p: (p - 1, most(p), most(p)),
    "reduce_scatter/pairwise": lambda p: (p - 1, most(p), most(p)),
    "reduce_scatter/circulant": lambda p: (log(p), most(p), most(p)),
    "all_gather/ring": lambda p: (p - 1, most(p), 0),
    "all_gather/recursive_doubling": lambda p: (log(p), most(p), 0),
    "all_gather/bruck": lambda p: (log(p), most(p), 0),
    "all_gather/circulant": lambda p: (log(p), most(p), 0),
    "broadcast/flat": lambda p: (p - 1, p - 1, 0),
    "broadcast/binomial": lambda p: (log(p), log(p), 0),
    "broadcast/scatter_all_gather": lambda p: (2 * log(p), 2 * most(p), 0),
    "broadcast/chain": lambda p: (p + BLOCKS - 2, Fraction(p + BLOCKS - 2, BLOCKS), 0),
    "reduce/flat": lambda p: (p - 1, p - 1, p - 1),
    "reduce/binomial": lambda p: (log(p), log(p), log(p)),
    "reduce/reduce_scatter_gather": lambda p: (2 * log(p), 2 * most(p), most(p)),
    "scatter/flat": lambda p: (p - 1, most(p), 0),
    "scatter/binomial": lambda p: (log(p), most(p), 0),
    "gather/flat": lambda p: (p - 1, most(p), 0),
    "gather/binomial": lambda p: (log(p), most(p), 0),
    "all_to_all/direct": lambda p: (p - 1, most(p), 0),
    "all_to_all/pairwise": lambda p: (p - 1, most(p), 0),
    "all_to_all/bruck": lambda p: (log(p), hops(p), 0),
    "barrier/dissemination": lambda p: (log(p), 0, 0),
}
PIPELINED_OR_ELSEWHERE = {
    "all_reduce/double_tree",
    "all_reduce/two_level",
    "broadcast/double_tree",
    "reduce/tree",
    "reduce_scatter/recursive_halving",
}


def made(name, ranks, **settings):
    return schedule(algorithm_named(*name.split("/")), ranks, blocks=BLOCKS, **settings)


def bytes_for(p):
    """A vector that p ranks, the largest power of two below and the blocks all divide."""
    return p * (1 << floor_log(p)) * BLOCKS * 2


RANKS = (*range(2, 34), 47, 48, 63, 64)


def test_there_is_a_formula_for_all_that_ships():
    shipped = {f"{a.collective.name}/{a.name}" for a in all_algorithms()}
    assert shipped == set(CLOSED_FORMS) | PIPELINED_OR_ELSEWHERE


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_the_time_is_the_closed_form_exactly(name):
    shipped = algorithm_named(*name.split("/"))
    for p in filter(shipped.serves, RANKS):
        size = 0 if name.startswith("barrier") else bytes_for(p)
        alpha, beta, gamma = CLOSED_FORMS[name](p)
        one = made(name, p, root=p // 3)
        assert time(one, size, 1000003, 3, 5) == 1000003 * alpha + 3 * beta * size + (
            5 * gamma * size
        ), p
        cost = price(one, size)
        assert cost.rounds == (1 if name == "all_to_all/direct" else alpha)
        assert cost.ports == (p - 1 if name == "all_to_all/direct" else 1)
        assert cost.bytes_sent.max() <= beta * size
        assert cost.bytes_reduced.max() <= gamma * size
        assert cost.bytes_sent.sum() == cost.bytes_received.sum()


@pytest.mark.parametrize("p", range(2, 65))
def test_the_circulant_all_reduce_costs_every_rank_the_least_there_is(p):
    size = 64 * p
    cost = price(made("all_reduce/circulant", p), size)
    assert cost.rounds == 2 * log(p)
    assert (cost.bytes_sent == 2 * most(p) * size).all()
    assert (cost.bytes_received == 2 * most(p) * size).all()
    assert (cost.bytes_reduced == most(p) * size).all()


@pytest.mark.parametrize(("p", "circulant", "folded"), ((3, 4, 9), (5, 8, 17.5), (7, 12, 24.5)))
def test_circulant_beside_rabenseifner(p, circulant, folded):
    size = 8 * p
    assert time(made("all_reduce/circulant", p), size, 0, 1, 0) == circulant * size / p
    assert time(made("all_reduce/rabenseifner", p), size, 0, 1, 0) == folded * size / p


def test_recursive_halving():
    for p in range(2, 65):
        size = bytes_for(p)
        one = made("reduce_scatter/recursive_halving", p)
        cost = price(one, size)
        assert cost.ports == 1
        if not fold(p):
            assert time(one, size, 7e6, 3, 5) == 7e6 * log(p) + (3 + 5) * most(p) * size
        assert cost.rounds == floor_log(p) + 2 * fold(p)
        assert time(one, size, 0, 1, 0) <= (2.4 if fold(p) else 1) * size


@pytest.mark.parametrize(("hosts", "each"), ((1, 4), (2, 1), (2, 3), (3, 5), (4, 4), (5, 2)))
def test_two_levels_send_the_least_between_hosts(hosts, each):
    p, size = hosts * each, 24 * hosts * each
    placed = tuple(rank // each for rank in range(p))
    one = made("all_reduce/two_level", p, hosts=placed)
    cost = price(one, size)
    rounds = 2 * (each - 1) + 2 * (hosts - 1)
    assert cost.rounds == rounds
    assert (cost.bytes_between_hosts == 2 * most(hosts) * size / each).all()
    assert (cost.bytes_sent == 2 * most(p) * size).all()
    assert time(one, size, 7, 3, 5) == 7 * rounds + (2 * 3 + 5) * most(p) * size


def test_bytes_between_hosts_are_those_that_leave_one():
    cost = price(made("all_reduce/ring", 4, hosts=(0, 0, 1, 1)), 400)
    assert cost.bytes_between_hosts.tolist() == [0, 600, 0, 600]


@pytest.mark.parametrize("p", (2, 3, 4, 6, 7, 9, 16, 31, 33, 64))
def test_pipelined_trees(p):
    size = bytes_for(p)
    cost = price(made("all_reduce/double_tree", p), size)
    assert cost.rounds == 2 * log(p) + BLOCKS - 1
    assert cost.bytes_sent.max() <= 2 * size
    assert cost.bytes_reduced.max() <= size
    assert cost.ports <= 3
    assert cost.bytes_sent.sum() == 2 * (p - 1) * size
    cost = price(made("broadcast/double_tree", p), size)
    assert cost.rounds == log(p - 1) + BLOCKS
    assert cost.bytes_sent.max() <= size
    cost = price(made("reduce/tree", p), size)
    assert cost.rounds == log(p) + BLOCKS - 1
    assert cost.bytes_sent.max() == size
    assert cost.ports <= 2


def test_two_trees_share_the_work_that_one_leaves_to_half_the_ranks():
    p, size = 32, 32 * 8
    sent = {
        name: price(made(name, p), size).bytes_sent
        for name in ("all_reduce/binomial", "all_reduce/double_tree")
    }
    assert sent["all_reduce/binomial"].max() == log(p) * size
    assert (sent["all_reduce/double_tree"] >= size).all()
    assert sent["all_reduce/double_tree"].max() == 2 * size


def test_memory_traffic_counts_reads_and_writes_where_they_are_done():
    cost = price(made("reduce/flat", 3), 100)
    assert cost.memory_traffic.tolist() == [2 * 300, 0, 0]
    cost = price(made("broadcast/flat", 3), 100)
    assert cost.memory_traffic.tolist() == [0, 200, 200]
    cost = price(made("all_to_all/direct", 2), 100)
    assert cost.memory_traffic.tolist() == [200, 200]
    assert cost.messages_sent.tolist() == [1, 1]
    assert cost.bytes_sent.tolist() == [50, 50]


def test_the_pieces_of_one_message_are_one_message():
    cost = price(made("reduce_scatter/circulant", 5), 100)
    assert cost.messages_sent.tolist() == [3] * 5


def test_chunks_of_uneven_length_are_priced_as_they_are_cut():
    cost = price(made("scatter/flat", 3), 10)
    assert cost.bytes_received.tolist() == [0, 3, 4]
    assert price(made("all_reduce/ring", 3), 10).bytes_reduced.sum() == 2 * 10


def test_a_rank_sends_one_message_at_a_time_and_waits_for_its_partner():
    def both():
        yield send(0, 1, 0)
        yield together(send(0, 2, 0), send(1, 3, 0))
        yield send(3, 4, 0)

    one = schedule(algorithm("broadcast", chunks=lambda: 1)(both), 5)
    assert list(round_ends(one, 10, 1, 1)) == [11, 22, 33]

    def fan():
        yield send(0, [1, 2, 3, 4], 0)

    one = schedule(algorithm("broadcast", chunks=lambda: 1)(fan), 5)
    assert list(round_ends(one, 10, 1, 1)) == [44]


def test_ranks_that_are_not_held_up_run_ahead():
    def apart():
        yield send(0, 1, 0, 2)
        yield together(send(0, 2, 0), send(1, 3, 0, 2))
        yield send(2, 4, 0)

    one = schedule(algorithm("broadcast", chunks=lambda: 2)(apart), 5)
    # 2 → 4 begins when rank 2 has the first half, at 15, while 1 → 3 lasts until 20.
    assert list(round_ends(one, 10, 0, 1)) == [10, 20, 20]


def test_nothing_to_send_costs_nothing():
    for shipped in all_algorithms():
        one = schedule(shipped, 1)
        cost = price(one, 1000)
        assert (cost.rounds, cost.ports, cost.bytes_sent.tolist()) == (0, 0, [0])
        assert time(one, 1000, 1, 1, 1) == 0


def test_many_ranks_are_priced_without_holding_their_rounds():
    one = made("all_reduce/ring", 512)
    assert sum(r.size for r in one.rounds()) == 2 * 511 * 512
    assert np.all(price(one, 512 * 100).bytes_sent == 2 * 511 * 100)


@pytest.mark.parametrize("one", all_algorithms(), ids=lambda one: one.name)
def test_several_sizes_at_once_take_what_each_takes(one):
    sizes = [0, 1, 123_457]
    made = schedule(one, 6 if one.serves(6) else 8)
    found = times(made, sizes, 5e-6, 1e-9, 1e-10)
    assert found.tolist() == [time(made, size, 5e-6, 1e-9, 1e-10) for size in sizes]
