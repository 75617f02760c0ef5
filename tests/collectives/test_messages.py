"""The messages of a round: transfers from one rank to the same other go together."""

from steptime.collectives.messages import messages
from steptime.collectives.schedule import send, together


def test_transfers_between_the_same_two_ranks_are_one_message_and_no_others_are():
    both = [(0, 2), (1, 2), (0, 2), (2, 0), (0, 1), (1, 1), (1, 2)]
    found = messages(together(*(send(src, dst, n, 1) for n, (src, dst) in enumerate(both))))
    assert list(zip(found.src.tolist(), found.dst.tolist(), strict=True)) == [
        *((0, 2), (1, 2), (2, 0), (0, 1))
    ]
    assert found.of.tolist() == [0, 1, 0, 2, 3, -1, 1]
