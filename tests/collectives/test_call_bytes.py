"""What a call of each collective moves: by member and by pair, and busbw's factor."""

import pytest

from steptime.collectives.call_bytes import Traffic, bus_factor, member_bytes, pair_bytes
from steptime.collectives.collective import COLLECTIVES
from steptime.errors import UsageError


@pytest.mark.parametrize("kind", COLLECTIVES)
@pytest.mark.parametrize("members", [1, 2, 5])
def test_pairs_add_up_to_what_each_rank_sends_and_receives(kind: str, members: int) -> None:
    sent = pair_bytes(kind, 60 * members, members, root=members - 1)
    for rank in range(members):
        traffic = member_bytes(kind, 60 * members, rank, members, root=members - 1)
        assert sent[rank].sum() == traffic.sent
        assert sent[:, rank].sum() == traffic.received
        assert sent[rank, rank] == 0


def test_all_to_all_and_scatter_move_a_share_for_each() -> None:
    assert pair_bytes("all_to_all", 12, 3).tolist() == [[0, 4, 4], [4, 0, 4], [4, 4, 0]]
    assert pair_bytes("scatter", 12, 3, root=1)[1].tolist() == [4, 0, 4]
    assert pair_bytes("gather", 12, 3, root=1)[:, 1].tolist() == [4, 0, 4]


def test_a_server_of_eight_workers_takes_in_eight_times_the_gradients():
    assert member_bytes("reduce", 498_000_000, 0, 9) == Traffic(0, 8 * 498_000_000)
    assert member_bytes("reduce", 498_000_000, 3, 9) == Traffic(498_000_000, 0)


def test_the_factors_of_busbw_are_those_of_nccl_tests() -> None:
    found = {kind: bus_factor(kind, 4) for kind in (*COLLECTIVES, "send")}
    assert found == {
        "all_reduce": 1.5,
        "reduce_scatter": 0.75,
        "all_gather": 0.75,
        "broadcast": 1,
        "reduce": 1,
        "scatter": 0.75,
        "gather": 0.75,
        "all_to_all": 0.75,
        "barrier": 1,
        "send": 1,
    }


def test_a_collective_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match="'all_scatter' is no collective"):
        member_bytes("all_scatter", 8, 0, 2)
