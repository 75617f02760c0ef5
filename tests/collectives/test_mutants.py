"""The proof against an independent judge: no mistake that can change a result may pass."""

from collections import Counter

import pytest
from mutants import KINDS, mutants
from numbers_oracle import is_right

from steptime.collectives import all_algorithms, prove, schedule

HOSTS = {2: (0, 1), 3: (0, 1, 1), 4: (0, 0, 1, 1), 5: (0, 0, 1, 1, 1), 6: (2, 0, 2, 0, 1, 1)}


def schedules(ranks):
    for algorithm in all_algorithms():
        if algorithm.serves(ranks):
            hosts = HOSTS.get(ranks)
            yield schedule(algorithm, ranks, root=ranks // 2, hosts=hosts, blocks=3)


def survey(sizes, number):
    """Mutants by kind, whether they can change the result, and whether the proof finds them."""
    seen, missed = Counter(), []
    for ranks in sizes:
        for one in schedules(ranks):
            for kind in KINDS:
                for mutant in mutants(one, kind, ranks, number):
                    harmful, found = not is_right(mutant, seed=1), not prove(mutant).ok
                    seen[kind, harmful, found] += 1
                    if harmful and not found:
                        missed.append((one.collective.name, one.algorithm, ranks, kind, mutant))
    return seen, missed


def report(seen):
    for kind in KINDS:
        harmful = seen[kind, True, True] + seen[kind, True, False]
        harmless = seen[kind, False, True] + seen[kind, False, False]
        print(
            f"{kind:8} {harmful + harmless:6} mutants, {harmful:6} harmful, "
            f"{seen[kind, True, True]:6} of them found; {harmless:5} equivalent, "
            f"{seen[kind, False, True]:5} of them refused"
        )


@pytest.mark.parametrize("ranks", range(1, 10))
def test_the_judge_finds_nothing_wrong_with_what_ships(ranks):
    for one in schedules(ranks):
        assert is_right(one, seed=ranks), (one.collective.name, one.algorithm)


def test_the_proof_finds_every_mutant_that_can_change_a_result():
    seen, missed = survey((2, 3, 5), number=5)
    report(seen)
    assert not missed, missed[0]
    for kind in KINDS:
        assert seen[kind, True, True] > 50, f"too few harmful mutants by {kind}"


@pytest.mark.slow
def test_the_proof_finds_every_mutant_of_many():
    seen, missed = survey((2, 3, 4, 5, 6, 7, 8, 9), number=10)
    report(seen)
    assert not missed, missed[0]
