"""GOAL text parsed by the grammar of LogGOPSim and replayed to its end."""

import re
from collections import defaultdict
from dataclasses import dataclass, field

LINE = re.compile(
    r"(?P<label>[a-zA-Z]\w*): (?:"
    r"send (?P<sent>\d+)b to (?P<to>\d+) tag (?P<send_tag>\d+)"
    r"|recv (?P<received>\d+)b from (?P<source>\d+) tag (?P<recv_tag>\d+)"
    r"|calc (?P<calc>\d+))(?: cpu (?P<cpu>\d+))?"
    r"|(?P<later>[a-zA-Z]\w*) requires (?P<earlier>[a-zA-Z]\w*)"
)


@dataclass
class Operation:
    words: dict[str, str]
    rank: int
    requires: list["Operation"] = field(default_factory=list)
    done: bool = False

    @property
    def cpu(self) -> tuple[int, str]:
        return self.rank, self.words.get("cpu", "0")

    @property
    def wire(self) -> tuple[str, str, str]:
        """Sender, receiver and tag of a message."""
        words = self.words
        if "to" in words:
            return str(self.rank), words["to"], words["send_tag"]
        return words["source"], str(self.rank), words["recv_tag"]


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
                labels[words["label"]] = Operation(words, rank)
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
