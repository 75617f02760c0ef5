"""The GOAL text parsed by the grammar of LogGOPSim and replayed to its end."""

import re
from collections import defaultdict
from dataclasses import dataclass, field

import pytest

from steptime.collectives import Algorithm, algorithm_named, all_algorithms, schedule
from steptime.collectives.export import goal_text
from steptime.collectives.price import price

LINE = re.compile(
    r"(?P<label>[a-zA-Z]\w*): (?:"
    r"send (?P<sent>\d+)b to (?P<to>\d+) tag (?P<send_tag>\d+)"
    r"|recv (?P<received>\d+)b from (?P<source>\d+) tag (?P<recv_tag>\d+)"
    r"|calc (?P<calc>\d+))"
    r"|(?P<later>[a-zA-Z]\w*) requires (?P<earlier>[a-zA-Z]\w*)"
)
NBYTES = 10_007


@dataclass
class Operation:
    words: dict[str, str]
    requires: list["Operation"] = field(default_factory=list)
    done: bool = False


def parse(text: str) -> list[list[Operation]]:
    """The operations of each rank; whatever the grammar does not know fails."""
    head, *blocks = text.split("\nrank ")
    ranks = int(re.fullmatch(r"num_ranks (\d+)\n", head)[1])
    assert len(blocks) == ranks
    parsed = []
    for rank, block in enumerate(blocks):
        first, *lines = block.strip().split("\n")
        assert first == f"{rank} {{"
        assert lines.pop() == "}"
        labels: dict[str, Operation] = {}
        for line in lines:
            match = LINE.fullmatch(line)
            assert match, line
            words = {name: value for name, value in match.groupdict().items() if value}
            if "later" in words:
                labels[words["later"]].requires.append(labels[words["earlier"]])
            else:
                assert words["label"] not in labels
                labels[words["label"]] = Operation(words)
        parsed.append(list(labels.values()))
    return parsed


def replay(ranks: list[list[Operation]]) -> None:
    """Do whatever can be done until all is; a receive needs its message."""
    wires: dict[tuple[int, int, str], list[str]] = defaultdict(list)
    left = [(rank, operation) for rank, block in enumerate(ranks) for operation in block]
    while left:
        waiting = []
        for rank, operation in left:
            words = operation.words
            ready = all(other.done for other in operation.requires)
            if ready and "source" in words:
                wire = wires[int(words["source"]), rank, words["recv_tag"]]
                ready = bool(wire)
                if ready:
                    assert wire.pop(0) == words["received"]
            elif ready and "to" in words:
                wires[rank, int(words["to"]), words["send_tag"]].append(words["sent"])
            operation.done = ready
            if not ready:
                waiting.append((rank, operation))
        assert len(waiting) < len(left), "deadlock"
        left = waiting
    assert not any(wires.values())


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
        reduced = [sum(int(o.words.get("calc", 0)) for o in block) for block in parsed]
        assert sent == cost.bytes_sent.tolist()
        assert reduced == pytest.approx((cost.bytes_reduced * 0.1).tolist(), abs=cost.rounds)
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
        "l3: calc 100",
        "l3 requires l1",
        "l3 requires l2",
        "l4: recv 1000b from 0 tag 1",
        "l4 requires l3",
        "l5: send 1000b to 2 tag 1",
    ]
