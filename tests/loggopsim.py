"""GOAL text timed by the rules of LogGOPSim on a network that takes no time.

The rules are those of src/LogGOPSim/LogGOPSim.cpp in spcl/LogGOPSim@76451de with L, o, g and G of
0; benchmarks/export_judges.py asks the program itself.
"""

import heapq
from collections import defaultdict
from itertools import count

from goal_replay import Operation, parse

SEND, RECV, CALC, MESSAGE = range(4)


def finish_ns(text: str, *, atlahs: bool = False) -> int:
    """When the last operation of a GOAL text ends, in its unit.

    LogGOPSim begins an operation at the clock of its own cpu, and lets a message arrive on the cpu
    of the number that it was sent from: what is required on another cpu is not waited for.
    ``atlahs``: begin it no sooner than what it requires has ended, and let messages arrive on the
    cpu that receives, as sim/LogGOPSim in spcl/atlahs@8837294 does.
    """
    replay = _Replay([operation for block in parse(text) for operation in block], atlahs)
    while replay.queue:
        replay.step(*heapq.heappop(replay.queue))
    assert not any(replay.missing.values()), "deadlock"
    return max(replay.clock.values())


def kind_of(operation: Operation) -> int:
    return SEND if "to" in operation.words else RECV if "source" in operation.words else CALC


class _Replay:
    def __init__(self, operations: list[Operation], atlahs: bool) -> None:
        self.atlahs = atlahs
        self.clock: dict[tuple[int, str], int] = defaultdict(int)
        self.ready: dict[int, int] = defaultdict(int)
        self.missing = {id(operation): len(operation.requires) for operation in operations}
        self.followers: dict[int, list[Operation]] = defaultdict(list)
        self.posted: dict[tuple[str, str, str], Operation] = {}
        self.arrived: dict[tuple[str, str, str], int] = {}
        self.queue: list[tuple[int, int, int, Operation]] = []
        self.numbers = count()
        for operation in operations:
            for other in operation.requires:
                self.followers[id(other)].append(operation)
        self.free([operation for operation in operations if not operation.requires])

    def free(self, operations: list[Operation]) -> None:
        for operation in sorted(operations, key=kind_of):
            ready = self.ready[id(operation)] if self.atlahs else 0
            self.push(max(self.clock[operation.cpu], ready), kind_of(operation), operation)

    def push(self, at: int, kind: int, operation: Operation) -> None:
        heapq.heappush(self.queue, (at, next(self.numbers), kind, operation))

    def end(self, operation: Operation, at: int) -> None:
        for other in self.followers[id(operation)]:
            self.ready[id(other)] = max(self.ready[id(other)], at)
            self.missing[id(other)] -= 1
        self.free([one for one in self.followers[id(operation)] if not self.missing[id(one)]])

    def step(self, at: int, _: int, kind: int, operation: Operation) -> None:
        if kind == RECV:
            if operation.wire in self.arrived:
                self.end(operation, max(at, self.arrived.pop(operation.wire)))
            else:
                self.posted[operation.wire] = operation
            return
        cpu = operation.cpu
        if kind == MESSAGE:
            receiver = self.posted.get(operation.wire)
            cpu = int(operation.words["to"]), cpu[1]
            if self.atlahs and receiver:
                cpu = receiver.cpu
        if self.clock[cpu] > at:
            self.push(self.clock[cpu], kind, operation)
        elif kind == MESSAGE:
            self.clock[cpu] = at
            if receiver:
                self.end(self.posted.pop(operation.wire), at)
            else:
                self.arrived[operation.wire] = at
        else:
            self.clock[cpu] = at + int(operation.words.get("calc", 0))
            self.end(operation, self.clock[cpu])
            if kind == SEND:
                self.push(at, MESSAGE, operation)
