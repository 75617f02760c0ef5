"""GOAL: a whole step as each rank's computations, sends and receives, as LogGOPSim reads it."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

import numpy as np

from steptime.arrays import distinct
from steptime.collectives.algorithm import algorithms
from steptime.collectives.algorithm import schedule as scheduled
from steptime.collectives.execute import slot_offsets
from steptime.collectives.export.goal import message_sizes
from steptime.collectives.lookup import find_algorithm
from steptime.collectives.schedule import Round, Schedule
from steptime.collectives.selection import blocks_for
from steptime.errors import UsageError
from steptime.program import Call, Collective, Compute, Matching, Op, Recv, Send, match_calls
from steptime.program.program import MAIN
from steptime.program.stored import StoredProgram

MOST_MESSAGES = 10_000_000
"""A step with more messages is refused: its text would exceed a gigabyte."""

USUAL = {
    "all_reduce": "ring",
    "reduce_scatter": "ring",
    "all_gather": "ring",
    "broadcast": "binomial",
    "reduce": "binomial",
    "gather": "binomial",
    "scatter": "binomial",
    "all_to_all": "pairwise",
}
"""The algorithm of a collective where neither the run nor the user names one."""

_MOST_TAG = 2**32 - 1
_MOST_CPU = 255


@dataclass(frozen=True)
class Part:
    """One member's round of a collective: (peer, bytes) sent and received, bytes reduced."""

    round: int
    sends: tuple[tuple[int, int], ...]
    receives: tuple[tuple[int, int], ...]
    reduced: int


@dataclass(frozen=True, eq=False)
class Expansion:
    """A collective, or a message, expanded into the Parts of each member, in order."""

    parts: Mapping[int, list[Part]]
    rounds: int


class ProgramGoal:
    """The GOAL text of one step of a program, rank by rank.

    Each op of a rank requires the one before it on its stream and the ops of the same step in
    ``after``; dependencies on the step before are left out. Collectives are expanded into the
    messages of their algorithms: within one, a rank's operations require all of its previous round,
    and where the run charged for adding up what arrives, that is a ``calc`` after its receives. All
    messages of a step differ in their tags. A message of no bytes counts as one byte, since
    LogGOPSim subtracts one from every size.

    ``algorithms``: by kind of collective; they go before those of the run, and these before USUAL.
    ``cpus``: give each stream a ``cpu``, for ATLAHS. LogGOPSim begins an operation at the clock of
    its own cpu, whatever it requires on another, so that there a rank has but one.

    The grammar is that of src/LogGOPSim/txt2bin.re in spcl/LogGOPSim@76451de.

    Raises UsageError where an algorithm is unknown or cannot serve a group, or the step has more
    than MOST_MESSAGES messages.
    """

    def __init__(
        self,
        stored: StoredProgram,
        algorithms: Mapping[str, str] = MappingProxyType({}),
        *,
        cpus: bool = False,
    ) -> None:
        self.program = stored.program
        self._seconds = stored.seconds
        self._reduce_ns = stored.reduce_s_per_byte * 1e9
        self._cpus = cpus
        self._algorithms = {**stored.algorithms, **algorithms}
        self._matching: Matching = match_calls(self.program)
        self.chosen: dict[str, str] = {}
        """By kind of collective the algorithm that carries it out."""
        self.messages = 0
        self._expansions = self._expanded()

    @cached_property
    def _tags(self) -> list[int]:
        """The first tag of each instance."""
        rounds = np.array([one.rounds for one in self._expansions], np.int64)[self._matching.call]
        return list((np.cumsum(rounds) - rounds).tolist())

    def text(self) -> Iterator[str]:
        """The text, a rank at a time."""
        yield f"num_ranks {self.program.ranks}\n"
        for rank in range(self.program.ranks):
            lines = self._rank(rank)
            yield f"\nrank {rank} {{\n" + "".join(f"{line}\n" for line in lines) + "}\n"

    def _rank(self, rank: int) -> list[str]:
        number = int(self.program.class_of[rank])
        block = _Block()
        part = int(self._matching.parts_of[rank])
        for op, seconds in zip(self.program.lists[number], self._seconds[number], strict=True):
            block.begin(op, op.stream if self._cpus else MAIN)
            if isinstance(op, Compute):
                block.operation(f"calc {round(seconds * 1e9)}")
            elif isinstance(op, Collective | Send | Recv):
                self._call(block, part)
                part += 1
            block.end(op)
        return block.lines

    def _call(self, block: "_Block", part: int) -> None:
        instance, place = int(self._matching.instance[part]), int(self._matching.place[part])
        first = self._matching.first[instance]
        members = self._matching.members[first : self._matching.first[instance + 1]].tolist()
        tag = self._tags[instance]
        for one in self._expansions[self._matching.call[instance]].parts.get(place, ()):
            where = f"tag {tag + one.round}"
            for peer, size in one.sends:
                block.operation(f"send {max(1, size)}b to {members[peer]} {where}")
            for peer, size in one.receives:
                block.operation(f"recv {max(1, size)}b from {members[peer]} {where}")
            if one.reduced and self._reduce_ns:
                block.end_round()
                block.operation(f"calc {round(one.reduced * self._reduce_ns)}")
            block.end_round()

    def _expanded(self) -> list[Expansion]:
        """Expand every call; messages are counted first, to refuse too many at once."""
        counts = np.bincount(self._matching.call, minlength=len(self._matching.calls)).tolist()
        schedules: list[Schedule | None] = []
        tags = 0
        for number, (call, count) in enumerate(zip(self._matching.calls, counts, strict=True)):
            example = int(np.argmax(self._matching.call == number))
            members = int(self._matching.first[example + 1] - self._matching.first[example])
            schedule = self._schedule(call, members) if call.kind and members > 1 else None
            schedules.append(schedule)
            if call.kind:
                rounds = sum(1 for _ in self._counted(schedule, count)) if schedule else 0
            else:
                self._count(count)
                rounds = 1
            tags += count * rounds
        if tags > _MOST_TAG:
            raise UsageError(
                f"{self.program.name} needs {tags:,} tags and GOAL has 2^32: export it to chakra"
            )
        both = zip(self._matching.calls, schedules, strict=True)
        return [
            _expanded(schedule, call.nbytes) if schedule else _message(call)
            for call, schedule in both
        ]

    def _counted(self, schedule: Schedule, times: int) -> Iterator[Round]:
        """The rounds of a schedule that runs ``times`` times, counting their messages."""
        for transfers in schedule.rounds():
            pairs = transfers["src"].astype(np.int64) * schedule.ranks + transfers["dst"]
            self._count(times * distinct(pairs[transfers["src"] != transfers["dst"]]))
            yield transfers

    def _count(self, messages: int) -> None:
        self.messages += messages
        if self.messages > MOST_MESSAGES:
            raise UsageError(
                f"{self.program.name} on {self.program.ranks:,} ranks has more than "
                f"{MOST_MESSAGES:,} messages, too many for a text: export it to chakra"
            )

    def _schedule(self, call: Call, members: int) -> Schedule:
        name = self._algorithms.get(call.kind) or call.algorithm or USUAL.get(call.kind)
        name = name or next(a.name for a in algorithms(call.kind).values() if a.serves(members))
        self.chosen[call.kind] = name
        return scheduled(
            find_algorithm(call.kind, name),
            members,
            root=call.root,
            blocks=blocks_for(call.nbytes),
        )


def _message(call: Call) -> Expansion:
    """The Expansion of a message; empty for a collective of one rank."""
    if call.kind:
        return Expansion({}, 0)
    send, receive = Part(0, ((1, call.nbytes),), (), 0), Part(0, (), ((0, call.nbytes),), 0)
    return Expansion({0: [send], 1: [receive]}, 1)


def _expanded(schedule: Schedule, nbytes: int) -> Expansion:
    offsets = np.asarray(slot_offsets(schedule, nbytes))
    parts: dict[int, list[Part]] = defaultdict(list)
    rounds = 0
    for transfers in schedule.rounds():
        messages, reduced = message_sizes(transfers, offsets)
        sends: dict[int, list[tuple[int, int]]] = defaultdict(list)
        receives: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for (src, dst), size in messages.items():
            sends[src].append((dst, size))
            receives[dst].append((src, size))
        for member in sorted({*sends, *receives, *reduced}):
            sent, received = tuple(sends.get(member, ())), tuple(receives.get(member, ()))
            parts[member].append(Part(rounds, sent, received, reduced.get(member, 0)))
        rounds += 1
    return Expansion(parts, rounds)


@dataclass
class _Block:
    """One rank's operations as they are written, and those that the next must require."""

    lines: list[str] = field(default_factory=list)
    cpus: dict[str, int] = field(default_factory=dict)
    ends: list[str] = field(default_factory=list)
    last: dict[str, str] = field(default_factory=dict)
    previous: list[str] = field(default_factory=list)
    current: list[str] = field(default_factory=list)
    cpu: str = ""
    count: int = 0
    before: int = 0

    def begin(self, op: Op, cpu: str) -> None:
        """Begin an op on a cpu; its first operations require the ops that it waits for."""
        number = min(self.cpus.setdefault(cpu, len(self.cpus)), _MOST_CPU)
        self.cpu = f" cpu {number}" if number else ""
        awaited = [self.ends[place] for place in op.after if place >= 0]
        before = self.last.get(op.stream)
        self.previous = list(dict.fromkeys([*([before] if before else []), *awaited]))
        self.current, self.before = [], self.count

    def operation(self, text: str) -> None:
        """Write one operation of this round."""
        self.count += 1
        label = f"l{self.count}"
        self.lines.append(f"{label}: {text}{self.cpu}")
        self.lines += [f"{label} requires {other}" for other in self.previous]
        self.current.append(label)

    def end_round(self) -> None:
        """Let the following operations require all of the round that ends here."""
        if self.current:
            self.previous, self.current = self.current, []

    def end(self, op: Op) -> None:
        """End an op with one label that later ops can require."""
        self.end_round()
        if self.count == self.before or len(self.previous) > 1:
            self.operation("calc 0")
            self.end_round()
        self.last[op.stream] = self.previous[0]
        self.ends.append(self.previous[0])
