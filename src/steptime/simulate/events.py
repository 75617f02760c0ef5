"""The event loop of fidelity ``message``: streams of all ranks, and messages on the network."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np

from steptime.arrays import Floats, Ints
from steptime.cluster import Cluster
from steptime.program import Matching
from steptime.simulate.cores import Cores
from steptime.simulate.network import engine, storage
from steptime.simulate.network.moves import MoveMaker
from steptime.simulate.network.state import (
    FULL,
    MOVE,
    NONE,
    QUIET,
    ROUNDS,
    UNREAD,
    Moves,
    Network,
)
from steptime.simulate.plan import Assignment, Plan
from steptime.simulate.queues import Queues
from steptime.simulate.streams import (
    STREAMS,
    TASK,
    Parts,
    Streams,
    Tasks,
)

_MOST_KEPT = 1 << 20  # moves of collectives that are kept for the next time: some 100 MB


def run_steps(
    queues: Queues,
    matching: Matching,
    plan: Plan,
    network: Network,
    cluster: Cluster,
    steps: int,
    cores: Cores,
) -> tuple[Floats, Network]:
    """Run some steps on a ``network`` that is empty; returns when ops end, and the network then.

    When each rank op ended, in seconds: shape (steps, rank ops). The streams of a rank may be in
    different steps. ``cores``: which nothing uses yet.
    """
    ends = np.full((steps, int(queues.rank_ops_of[-1])), np.nan)
    count = queues.class_of.size * (queues.queue_of.shape[1] - 1)
    streams = Streams(
        done=np.zeros(count, np.int64),
        busy=np.zeros(count, np.bool_),
        listed=np.ones(count, np.bool_),
        todo=np.arange(count, dtype=np.int64),
        counts=np.array([count], np.int64),
        begun=np.full((steps, matching.call.size), NONE, np.int64),
    )
    parts = Parts(matching.parts_of, matching.instance, matching.place)
    work = _work(plan, matching, _with_streams(network, count), cluster)
    while True:
        reason = engine.run_streams(
            work.network, queues, parts, work.tasks, work.moves, streams, cores, ends
        )
        if reason == QUIET:
            return ends, work.network
        if reason == UNREAD:
            work.read()
        elif reason == FULL:
            work.make_room()
        elif reason == ROUNDS:
            work.feed()
        else:
            work.network = storage.with_log(work.network)


@dataclass(eq=False)
class _Work:
    """The tasks of a step, and the network that carries them out.

    ``collectives``: of each of the first tasks its assignment and the number of its group there;
    ``used``: how many rows of moves there are; ``lone``: those of lone messages, which stay.
    ``unread``: by owner, the moves of a collective that its task has not.
    """

    network: Network
    tasks: Tasks
    moves: Moves
    maker: MoveMaker
    collectives: list[tuple[Assignment, int]]
    used: int
    lone: int
    unread: dict[int, Iterator[tuple[Moves, bool]]] = field(default_factory=dict)

    def read(self) -> None:
        """Read the first moves of the task that streams wait for."""
        number = int(self.network.counts["wanted"][0])
        assignment, group = self.collectives[number]
        self.maker.check_memory(assignment.schedule, assignment.devices[group])
        moves, last = next(self._moves_of(number))
        if self.used + len(moves.rows) > _MOST_KEPT:
            self.tasks.every["first"][: len(self.collectives)] = NONE
            self.used = self.lone
        self.moves = _with_moves(self.moves, self.used, moves)
        task = self.tasks.every[number]
        task["first"], task["size"], task["whole"] = self.used, len(moves.rows), last
        self.used += len(moves.rows)
        self.network = storage.with_series(self.network, moves.paths)
        self.make_room()

    def make_room(self) -> None:
        """Make room in the network for the task that streams wait for."""
        task = self.tasks.every[self.network.counts["wanted"][0]]
        self.network = storage.with_flows(
            self.network, max(1, int(task["size"])), self.moves.paths.shape[1]
        )
        counts, members = self.network.counts[0], int(task["members"])
        if counts["owners"] == len(self.network.owners):
            self.network = storage.with_owners(self.network, 2 * len(self.network.owners))
        if counts["parts"] + members > len(self.network.parts):
            size = 2 * len(self.network.parts) + members
            self.network = storage.with_parts(self.network, size)

    def feed(self) -> None:
        """Append the next moves of the collective whose ranks have come to the end of theirs."""
        number = int(self.network.counts["without_rounds"][0])
        owner = self.network.owners[number]
        if number not in self.unread:
            self.unread[number] = islice(self._moves_of(int(owner["task"])), 1, None)
        moves, last = next(self.unread[number])
        if last:
            owner["exhausted"] = True
            del self.unread[number]
        self.network = storage.with_series(self.network, moves.paths)
        self.network = storage.with_flows(self.network, *moves.paths.shape)
        engine.append(self.network, int(owner["base"]), moves, 0, len(moves.rows))

    def _moves_of(self, number: int) -> Iterator[tuple[Moves, bool]]:
        assignment, group = self.collectives[number]
        nbytes = assignment.effective_bytes
        return self.maker.of_collective(assignment.schedule, assignment.devices[group], nbytes)


def _work(plan: Plan, matching: Matching, network: Network, cluster: Cluster) -> _Work:
    """The tasks of a plan: those of collectives, then lone messages, of which moves are read."""
    of = np.full(matching.call.size, NONE, np.int32)
    collectives: list[tuple[Assignment, int]] = []
    for assignment in plan.assignments:
        made = matching.instances[assignment.number]
        task_of = np.full(len(made.groups), NONE, np.int32)
        task_of[assignment.own] = len(collectives) + np.arange(assignment.own.size)
        carried = task_of[made.group] != NONE
        of[made.numbers[carried]] = task_of[made.group[carried]]
        collectives += [(assignment, group) for group in range(assignment.own.size)]
    ends: list[Ints] = []
    sizes: list[Floats] = []
    count = len(collectives)
    for one in plan.messages:
        made = matching.instances[one.number]
        of[made.numbers] = count + made.group
        count += len(one.devices)
        ends.append(one.devices)
        sizes.append(np.full(len(one.devices), float(one.effective_bytes)))
    maker = MoveMaker(cluster)
    pairs = np.concatenate([np.empty((0, 2), np.int32), *ends])
    alone = maker.alone(np.ascontiguousarray(pairs.T), np.concatenate([np.empty(0), *sizes]))
    every = np.zeros(count, TASK)
    every["first"] = every["spare"] = NONE
    every["members"][: len(collectives)] = [one.schedule.ranks for one, _ in collectives]
    every["first"][len(collectives) :] = np.arange(len(pairs))
    every["size"][len(collectives) :], every["whole"] = 1, True
    network = storage.with_series(network, alone.paths)
    network = storage.with_flows(network, 1, alone.paths.shape[1])
    return _Work(network, Tasks(of, every), alone, maker, collectives, len(pairs), len(pairs))


def _with_streams(network: Network, count: int) -> Network:
    """The network with parts, the first ones, that stand for streams which compute."""
    network = storage.with_parts(network, 2 * count)
    network.parts[:count] = (0.0, NONE, NONE, 0, STREAMS, NONE)
    network.parts["stream"][:count] = np.arange(count)
    network.owners[STREAMS] = (STREAMS, 0, count, True, NONE, 0, NONE)
    network.counts["owners"], network.counts["parts"] = 1, count
    return network


def _with_moves(old: Moves, used: int, more: Moves) -> Moves:
    """The first ``used`` moves of ``old``, and then ``more``, in room that may be wider."""
    rows, paths = old
    past, width = used + len(more.rows), more.paths.shape[1]
    hops = max(paths.shape[1], width)
    if past > len(rows) or hops > paths.shape[1]:
        size = max(2 * used, past)
        rows, paths = np.empty(size, MOVE), np.full((size, hops), NONE, np.int32)
        rows[:used], paths[:used, : old.paths.shape[1]] = old.rows[:used], old.paths[:used]
    rows[used:past] = more.rows
    paths[used:past], paths[used:past, :width] = NONE, more.paths
    return Moves(rows, paths)
