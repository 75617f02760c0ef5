"""GOAL: a schedule as each rank's sends, receives and computations, for LogGOPSim."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from steptime.arrays import Longs
from steptime.collectives.execute import slot_offsets
from steptime.collectives.schedule import Round, Schedule


def goal_text(schedule: Schedule, nbytes: int) -> str:
    """The GOAL text of a schedule on a vector of ``nbytes`` bytes.

    One block a rank. Each message of a round is a ``send`` and a ``recv`` with the round as its
    tag, and an operation requires all of its rank's previous round, as the Schedule's local
    barriers say. Reducing takes no time. A message of no bytes counts as one byte, since LogGOPSim
    subtracts one from every size.

    The grammar is that of src/LogGOPSim/txt2bin.re in spcl/LogGOPSim@76451de.
    """
    offsets = np.asarray(slot_offsets(schedule, nbytes))
    blocks = [_Block() for _ in range(schedule.ranks)]
    for tag, transfers in enumerate(schedule.rounds()):
        messages, _ = message_sizes(transfers, offsets)
        for (src, dst), size in messages.items():
            blocks[src].add(f"send {max(1, size)}b to {dst} tag {tag}")
            blocks[dst].add(f"recv {max(1, size)}b from {src} tag {tag}")
        for rank in {rank for pair in messages for rank in pair}:
            blocks[rank].end_round()
    return "\n".join(_text(schedule.ranks, blocks))


def message_sizes(
    transfers: Round, offsets: Longs
) -> tuple[Counter[tuple[int, int]], Counter[int]]:
    """The bytes of each message, by (src, dst), and those each rank reduces."""
    messages: Counter[tuple[int, int]] = Counter()
    reduced: Counter[int] = Counter()
    sizes = offsets[transfers["first"] + transfers["count"]] - offsets[transfers["first"]]
    rows = zip(*(transfers[name].tolist() for name in ("src", "dst", "reduce")), strict=True)
    for (src, dst, reduce), size in zip(rows, sizes.tolist(), strict=True):
        if src != dst:
            messages[src, dst] += size
        if reduce:
            reduced[dst] += size
    return messages, reduced


@dataclass
class _Block:
    """One rank's operations as they are written, and those that the next ones require."""

    lines: list[str] = field(default_factory=list)
    operations: int = 0
    previous: list[str] = field(default_factory=list)
    current: list[str] = field(default_factory=list)

    def add(self, operation: str) -> None:
        self.operations += 1
        label = f"l{self.operations}"
        self.lines.append(f"{label}: {operation}")
        self.lines += [f"{label} requires {other}" for other in self.previous]
        self.current.append(label)

    def end_round(self) -> None:
        self.previous, self.current = self.current, []


def _text(ranks: int, blocks: list[_Block]) -> Iterator[str]:
    yield f"num_ranks {ranks}"
    for rank, block in enumerate(blocks):
        yield f"\nrank {rank} {{"
        yield from block.lines
        yield "}"
    yield ""
