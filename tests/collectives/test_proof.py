"""The proof: what ships is right for every number of ranks, and what is wrong is named."""

import numpy as np
import pytest

from steptime.collectives import (
    Finding,
    algorithm,
    algorithm_named,
    all_algorithms,
    prove,
    schedule,
    send,
    together,
)
from steptime.errors import UsageError

SHIPPED = all_algorithms()
NAMES = [f"{a.collective.name}/{a.name}" for a in SHIPPED]


@pytest.mark.parametrize("shipped", SHIPPED, ids=NAMES)
def test_every_algorithm_is_right_for_1_to_33_ranks(shipped):
    for ranks in filter(shipped.serves, range(1, 34)):
        proof = prove(schedule(shipped, ranks))
        assert proof.ok, (ranks, proof.findings)
        assert proof.same_bits, ranks


@pytest.mark.parametrize("ranks", (1, 2, 3, 5, 8, 12, 17))
def test_every_root_will_do(ranks):
    for shipped in SHIPPED:
        if shipped.collective.rooted:
            for root in range(ranks):
                assert prove(schedule(shipped, ranks, root=root)).ok, (shipped, root)


@pytest.mark.parametrize("blocks", (1, 2, 5, 19))
def test_any_number_of_blocks_will_do(blocks):
    for shipped in SHIPPED:
        if "blocks" in shipped.takes:
            for ranks in (1, 2, 3, 6, 9):
                made = schedule(shipped, ranks, blocks=blocks)
                assert made.chunks in (blocks, 2 * blocks)
                assert prove(made).ok, (shipped, ranks)


@pytest.mark.parametrize(
    "hosts",
    (
        (0,),
        (0, 0, 0, 0),  # one host
        (0, 1, 2, 3),  # one rank each
        (0, 1, 0, 1, 0, 1),  # ranks dealt out
        (7, 7, 3, 3, 3, 7),  # any names, any order
        (0, 0, 0, 0, 0, 1),  # a host of one
        (0, 1, 1, 2, 2, 2, 2),  # three sizes
        (2, 0, 1, 2, 0, 1, 2, 2, 2),
        tuple(rank // 4 for rank in range(32)),
        tuple(min(rank // 8, 2) for rank in range(29)),
    ),
)
def test_two_levels_on_any_hosts(hosts):
    two_level = algorithm_named("all_reduce", "two_level")
    proof = prove(schedule(two_level, len(hosts), hosts=hosts))
    assert proof.ok, proof.findings
    assert proof.same_bits


def findings_of(collective, generate, ranks=3, **shape):
    return prove(schedule(algorithm(collective, **shape)(generate), ranks)).findings


def test_a_contribution_that_never_arrives():
    def too_late(ranks):
        rank = np.arange(ranks)
        for step in range(2, ranks):
            yield send(rank, (rank + 1) % ranks, (rank - step) % ranks, reduce=True)

    found = findings_of("reduce_scatter", too_late, ranks=4)
    assert found[0] == Finding(0, 0, 1, "lacks the contribution of rank 1")
    assert [(one.rank, one.chunk) for one in found] == [(rank, rank) for rank in range(4)]


def test_a_contribution_that_counts_twice():
    def twice():
        for _ in range(2):
            yield send(1, 0, 0, reduce=True)
            yield send(2, 0, 0, reduce=True)

    (found,) = findings_of("reduce", twice, chunks=lambda: 1)
    assert found == Finding(0, 0, 3, "has more than once the contribution of ranks 1, 2")


def test_a_contribution_nobody_asked_for():
    def summed():
        yield send(0, [1, 2], 0)
        yield send(2, 0, 0, reduce=True)

    (found,) = findings_of("broadcast", summed, chunks=lambda: 1)
    assert found == Finding(0, 0, 1, "has more than once the contribution of rank 0")

    def foreign(ranks):
        yield send(1, 0, 1, into=0)
        yield send(np.arange(1, ranks), 0, np.arange(1, ranks))

    (found,) = findings_of("gather", foreign)
    assert found == Finding(0, 0, 0, "ends with chunk 1 instead of chunk 0")


def test_a_slot_that_holds_nothing():
    def hasty():
        yield send(1, 2, 0)
        yield send(0, [1, 2], 0)

    (found,) = findings_of("broadcast", hasty, chunks=lambda: 1)
    assert found == Finding(1, 0, 0, "is sent to rank 2 and holds nothing")

    def into_nothing():
        yield send(0, [1, 2], 0, reduce=True)

    (first, second, *_) = findings_of("broadcast", into_nothing, chunks=lambda: 1)
    assert first == Finding(1, 0, 0, "holds nothing that chunk 0 could be reduced into")
    assert second.rank == 2


def test_chunks_that_do_not_belong_together():
    def mixed():
        yield send(1, 0, 1, into=0, reduce=True)

    first, *_ = findings_of("reduce", mixed, chunks=lambda: 2, ranks=2)
    assert first == Finding(0, 0, 0, "holds chunk 0 and gets chunk 1 reduced into it")


@pytest.mark.parametrize(
    ("made", "what"),
    (
        (lambda: send([0, 1], [1, 2], 0), "is sent while it is copied into: a race"),
        (
            lambda: together(send(0, [1, 2], 0), send(0, 1, 0)),
            "is copied into twice in one round: which copy stays is open",
        ),
        (
            lambda: together(send(0, [1, 2], 0), send(0, 1, 0, reduce=True)),
            "is copied into and reduced into in one round",
        ),
        (lambda: send(0, 3, 0), "is no rank: there are ranks 0 to 2"),
        (lambda: send(-1, 0, 0), "is no rank: there are ranks 0 to 2"),
        (lambda: send(0, 1, 0, into=1), "slots 1 to 1 are not all among the 1 slots of rank 1"),
        (lambda: send(0, 1, -1), "slots -1 to -1 are not all among the 1 slots of rank 0"),
    ),
)
def test_what_is_wrong_within_a_round(made, what):
    def wrong():
        yield made()

    assert what in [found.what for found in findings_of("broadcast", wrong, chunks=lambda: 1)]


def test_a_race_names_rank_chunk_and_round():
    def pushed():
        yield send(0, 1, 0, 2)
        yield together(send(1, 2, 1), send(0, 1, 1))

    (found,) = findings_of("broadcast", pushed, chunks=lambda: 2)[:1]
    assert found == Finding(1, 1, 1, "is sent while it is copied into: a race")


def test_orders_of_reduction_that_give_different_bits():
    def in_its_own_order(ranks):
        rank = np.arange(ranks)
        yield together(*(send(rank, (rank + d) % ranks, 0, reduce=True) for d in range(1, ranks)))

    made = algorithm("all_reduce", chunks=lambda: 1)(in_its_own_order)
    assert prove(schedule(made, 2)).same_bits  # an operation that commutes
    proof = prove(schedule(made, 3))
    assert proof.ok
    assert not proof.same_bits


def test_the_findings_end_somewhere():
    def nothing():
        yield from ()

    assert len(findings_of("all_reduce", nothing, ranks=16)) == 20


def test_a_proof_beyond_the_memory_is_refused():
    ring = algorithm_named("all_reduce", "ring")
    with pytest.raises(UsageError, match=r"1024 ranks and 1024 slots would need 32\.0 GiB: verify"):
        prove(schedule(ring, 1024))
