"""Verifying an algorithm: for every root that could differ, and with its price."""

from collections.abc import Iterator

import pytest

from steptime.collectives import Round, algorithm, algorithm_named, send
from steptime.collectives.verification import verify
from steptime.errors import SteptimeError


@algorithm("broadcast", chunks=lambda: 1)
def always_from_0(ranks: int) -> Iterator[Round]:
    """Right for one root, and wrong for all others."""
    for rank in range(1, ranks):
        yield send(0, rank, 0)


def test_an_algorithm_that_is_right_for_one_root_alone_is_wrong() -> None:
    found = verify(always_from_0, 5, 64)
    assert (found.ok, found.roots, found.root) == (False, (0, 2, 4), 2)
    assert (found.bytes_sent_max, found.bytes_reduced_max) == (0, 0)


def test_a_function_that_yields_far_too_many_rounds_is_stopped() -> None:
    @algorithm("broadcast", chunks=lambda: 1)
    def again(ranks: int) -> Iterator[Round]:
        for _ in range(100_000):
            yield send(0, ranks - 1, 0)

    with pytest.raises(SteptimeError, match="has not ended after"):
        verify(again, 2, 64)


@pytest.mark.parametrize(("kind", "sent", "reduced"), [("broadcast", 320, 0), ("reduce", 80, 320)])
def test_what_is_right_for_all_roots_is_priced(kind: str, sent: int, reduced: int) -> None:
    """Flat: the root sends to, or adds up, each of 4 others' 80 bytes."""
    found = verify(algorithm_named(kind, "flat"), 5, 80)
    assert (found.ok, found.root, found.rounds) == (True, 4, 4)
    assert (found.bytes_sent_max, found.bytes_reduced_max) == (sent, reduced)
