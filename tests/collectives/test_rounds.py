"""Schedules, sends, and how algorithms are found and refused."""

import numpy as np
import pytest

from steptime.collectives import (
    COLLECTIVES,
    algorithm,
    algorithm_named,
    algorithms,
    all_algorithms,
    collective_named,
    schedule,
    send,
    together,
)
from steptime.errors import UsageError


def rows(transfers):
    return [tuple(row) for row in transfers.tolist()]


def test_arguments_of_send_broadcast():
    sent = send(0, [1, 2, 3], [4, 5, 6], 2, into=7, reduce=True)
    assert rows(sent) == [(0, 1, 4, 7, 2, True), (0, 2, 5, 7, 2, True), (0, 3, 6, 7, 2, True)]
    assert rows(send(0, 1, 2)) == [(0, 1, 2, 2, 1, False)]
    assert send(np.arange(0), 1, 0).size == 0
    assert rows(together(send(0, 1, 2), send(1, 0, 3)))[1] == (1, 0, 3, 3, 1, False)
    assert together().size == 0


@pytest.mark.parametrize("chunks", (1, 2, 5))
def test_a_range_that_runs_over_the_end_goes_on_at_the_beginning(chunks):
    cases = np.array(
        [(f, i, n) for f in range(chunks) for i in range(2 * chunks) for n in range(chunks + 1)]
    )

    def all_of_them():
        for first, into, count in cases:
            yield send(0, 1, first, count, into=into)

    made = algorithm("all_gather", chunks=lambda: chunks, scratch=lambda: 2 * chunks)(all_of_them)
    cut = iter(schedule(made, 2).rounds())
    for first, into, count in cases[cases[:, 2] > 0]:
        moved = [
            (f + k, i + k) for _, _, f, i, n, _ in rows(next(cut)) for k in range(n)
        ]  # slot by slot, as the pieces stand
        wanted = [
            ((first + k) % chunks, (into + k) % chunks if into < chunks else into + k)
            for k in range(count)
        ]
        assert moved == wanted
    assert next(cut, None) is None


def test_rounds_that_move_nothing_are_none():
    def idle():
        yield send(0, 1, 0)
        yield together()
        yield send(0, 1, 0, 0)

    made = schedule(algorithm("broadcast", chunks=lambda: 1)(idle), 2)
    assert len(list(made.rounds())) == 1
    assert made.all_rounds is made.all_rounds


def test_every_collective_has_its_algorithms():
    assert {a.collective.name: 0 for a in all_algorithms()}.keys() == COLLECTIVES.keys()
    assert list(algorithms("all_reduce")) == [
        "binomial",
        "circulant",
        "double_tree",
        "flat",
        "rabenseifner",
        "recursive_doubling",
        "ring",
        "two_level",
    ]
    assert len(all_algorithms()) == 33


@pytest.mark.parametrize("shipped", all_algorithms(), ids=lambda a: f"{a.collective.name}/{a.name}")
def test_every_algorithm_says_what_it_does_and_what_it_costs(shipped):
    summary, _, cost = shipped.doc.partition("\n\n")
    assert summary.endswith(".")
    assert "round" in cost


def test_only_all_to_all_moves_a_chunk_to_another_place():
    for shipped in all_algorithms():
        made = schedule(shipped, 8)
        moved = any((t["first"] != t["into"]).any() for t in made.rounds())
        assert moved == (shipped.collective.name == "all_to_all"), shipped


def test_the_ring_talks_to_its_neighbours_alone():
    for kind in ("all_reduce", "reduce_scatter", "all_gather"):
        for t in schedule(algorithm_named(kind, "ring"), 7).rounds():
            assert ((t["dst"] - t["src"]) % 7 == 1).all()


def test_partners_of_a_hypercube_differ_in_one_bit():
    for kind, name in (
        ("all_reduce", "rabenseifner"),
        ("all_reduce", "recursive_doubling"),
        ("reduce_scatter", "recursive_halving"),
        ("all_gather", "recursive_doubling"),
    ):
        for t in schedule(algorithm_named(kind, name), 16).rounds():
            assert (np.bitwise_count(t["src"] ^ t["dst"]) == 1).all()


def test_only_rails_of_two_levels_leave_their_host():
    hosts = (0, 0, 0, 1, 1, 2, 2, 2)
    for t in schedule(algorithm_named("all_reduce", "two_level"), 8, hosts=hosts).rounds():
        leaving = t[np.take(hosts, t["src"]) != np.take(hosts, t["dst"])]
        assert set(leaving["src"].tolist()) <= {0, 1, 3, 4, 5, 6}


def test_by_default_half_of_the_ranks_is_on_each_of_two_hosts():
    assert schedule(algorithm_named("all_reduce", "ring"), 5).hosts == (0, 0, 0, 1, 1)


@pytest.mark.parametrize(
    ("asked", "words"),
    (
        (lambda: collective_named("allreduce"), "no collective 'allreduce': did you mean all_re"),
        (lambda: algorithms("sum"), "no collective 'sum'"),
        (
            lambda: algorithm_named("all_to_all", "ring"),
            "no all_to_all 'ring': choose one of bruck, direct, pairwise",
        ),
        (
            lambda: schedule(algorithm_named("all_gather", "recursive_doubling"), 6),
            "the all_gather 'recursive_doubling' cannot serve 6 ranks: choose one of bruck, "
            "circulant, ring",
        ),
        (lambda: schedule(algorithm_named("broadcast", "flat"), 3, root=3), "root 3 is no rank"),
        (lambda: schedule(algorithm_named("broadcast", "flat"), 3, root=-1), "root -1 is no rank"),
        (lambda: schedule(algorithm_named("broadcast", "flat"), 0), "at least one rank, not 0"),
        (
            lambda: schedule(algorithm_named("all_reduce", "two_level"), 3, hosts=(0, 1)),
            "2 hosts are given for 3 ranks",
        ),
        (
            lambda: schedule(algorithm_named("broadcast", "chain"), 3, blocks=0),
            "at least one block, not 0",
        ),
        (
            lambda: algorithm("broadcast")(lambda ranks, speed: iter((ranks, speed))),
            "asks for 'speed': its parameters may be ranks, root, hosts, blocks",
        ),
    ),
)
def test_what_cannot_be_is_refused(asked, words):
    with pytest.raises(UsageError, match=words):
        asked()
