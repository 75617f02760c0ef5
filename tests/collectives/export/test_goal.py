"""The GOAL text parsed by the grammar of LogGOPSim and replayed to its end."""

import pytest

from goal_replay import Operation, parse, replay
from steptime.collectives import Algorithm, algorithm_named, all_algorithms, schedule
from steptime.collectives.export import goal_text
from steptime.collectives.price import price

NBYTES = 10_007


def longest_chain(ranks: list[list[Operation]]) -> int:
    """The most sends and receives of one rank that follow each other."""
    longest = 0
    for block in ranks:
        depth: dict[int, int] = {}
        for operation in block:
            before = max((depth[id(other)] for other in operation.requires), default=0)
            depth[id(operation)] = before + ("calc" not in operation.words)
        longest = max(longest, *depth.values(), 0) if depth else longest
    return longest


@pytest.mark.parametrize("chosen", all_algorithms(), ids=lambda a: f"{a.collective.name}-{a.name}")
def test_the_text_replays_and_moves_the_bytes_of_the_price(chosen: Algorithm) -> None:
    for ranks in (1, 3, 8):
        if not chosen.serves(ranks):
            continue
        made = schedule(chosen, ranks, root=ranks - 1)
        cost = price(made, NBYTES)
        parsed = parse(goal_text(made, NBYTES))
        replay(parsed)
        sent = [sum(int(o.words.get("sent", 0)) for o in block) for block in parsed]
        assert sent == cost.bytes_sent.tolist()
        assert not any("calc" in o.words for block in parsed for o in block)
        assert longest_chain(parsed) <= cost.rounds


def test_a_message_without_bytes_is_one_byte() -> None:
    text = goal_text(schedule(algorithm_named("barrier", "dissemination"), 2), 0)
    assert "l1: send 1b to 1 tag 0" in text


def test_a_round_requires_the_one_before() -> None:
    text = goal_text(schedule(algorithm_named("all_reduce", "ring"), 3), 3000)
    block = text.split("rank 1 {\n")[1].split("}")[0].splitlines()
    assert block[:8] == [
        "l1: recv 1000b from 0 tag 0",
        "l2: send 1000b to 2 tag 0",
        "l3: recv 1000b from 0 tag 1",
        "l3 requires l1",
        "l3 requires l2",
        "l4: send 1000b to 2 tag 1",
        "l4 requires l1",
        "l4 requires l2",
    ]
