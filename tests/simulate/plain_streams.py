"""The streams of all ranks in plain Python: what the compiled ones are compared with."""

from itertools import pairwise
from math import inf

import numpy as np

from steptime.arrays import Ints
from steptime.program import Matching
from steptime.simulate.network.simulator import NetworkSimulator
from steptime.simulate.plan import Assignment, Plan
from steptime.simulate.queues import COMMUNICATE, WAIT, Queues

Stream = tuple[int, int]
"""A rank and the number of one of its streams."""

StepInstance = tuple[int, int]
"""A step and the number of an instance of a call in it."""

SLICE_S = 3e-3  # as the engine has it
MESSAGE = -1  # the rank of a Done that is a message


class PlainStreams:
    """The streams of all ranks, each with the op it runs now.

    ``ends``: when each rank op ended, in seconds, shape (steps, rank ops). The streams of a rank
    may be in different steps. ``hosts``: of each rank, each of so many ``cores`` that its ranks
    share; none: each rank has its own.
    """

    def __init__(
        self,
        queues: Queues,
        matching: Matching,
        plan: Plan,
        network: NetworkSimulator,
        steps: int,
        hosts: list[int] | None = None,
        cores: float = inf,
    ) -> None:
        ranks, streams = queues.class_of.size, queues.queue_of.shape[1] - 1
        rank_ops = int(queues.rank_ops_of[-1])
        self.ends = np.full((steps, rank_ops), np.nan)
        self._network = network
        self._steps = steps
        self._now = 0.0
        self._ops = _Ops(queues)
        self._instance, self._place = matching.instance.tolist(), matching.place.tolist()
        self._parts_of = matching.parts_of.tolist()
        self._rank_ops_of = queues.rank_ops_of.tolist()
        self._speed = queues.speed.tolist()
        self._class_of = queues.class_of.tolist()
        self._group_of, self._ends_of = _groups_of(plan, matching), _ends_of(plan, matching)
        self._done = [[0] * streams for _ in range(ranks)]  # ops, of all steps
        self._ended = [[0] * self._ops.sizes[kind] for kind in self._class_of]  # steps of each op
        self._busy = [[False] * streams for _ in range(ranks)]
        self._computing = _Computing(hosts or [0] * ranks, cores)
        self._tokens: dict[StepInstance, int] = {}  # of collectives
        self._alone: dict[StepInstance, Stream] = {}  # who has reached a message before the other
        self._waiting: dict[tuple[int, int], tuple[Stream, ...]] = {}  # by token and rank of a Done

    def run(self) -> None:
        """Run all steps, until no event is left."""
        self._start(
            [(rank, stream) for rank, on in enumerate(self._busy) for stream in range(len(on))]
        )
        while True:
            until = self._computing.until(self._now)
            done = self._network.advance(until)
            if not done and until == inf:
                return
            before, self._now = self._now, self._network.now if done else until
            over = [s for one in done for s in self._waiting.pop((one.token, one.rank))]
            over += self._computing.over(before, self._now)
            self._start([free for stream in over for free in self._end(stream)])

    def _start(self, free: list[Stream]) -> None:
        """Start the next op of each of these streams if it can start, and what follows at once."""
        while free:
            rank, number = stream = free.pop()
            kind = self._class_of[rank]
            queue = self._ops.queues[kind][number]
            done = self._done[rank][number]
            if self._busy[rank][number] or done == len(queue) * self._steps:
                continue
            step, at = divmod(done, len(queue))
            op = queue[at]
            after = self._ops.after[kind][op]
            if after and self._blocked(rank, step, after):
                continue
            self._busy[rank][number] = True
            if self._ops.code[kind][op] == COMMUNICATE:
                part = self._parts_of[rank] + self._ops.part[kind][op]
                if self._reach((step, self._instance[part]), self._place[part], stream):
                    free += self._end(stream)
                continue
            seconds = self._ops.seconds[kind][op] / self._speed[rank]
            if self._now + seconds > self._now:
                rests = self._ops.code[kind][op] == WAIT
                self._computing.begin(stream, seconds, self._now, rests=rests)
            else:
                free += self._end(stream)

    def _blocked(self, rank: int, step: int, after: list[int]) -> bool:
        """Whether an op in ``after`` has not ended: of this step or, if negative, the last."""
        ended = self._ended[rank]
        return any(ended[op] < step + (op >= 0) for op in after)

    def _end(self, stream: Stream) -> list[Stream]:
        """End the op that a stream runs; returns the streams that may go on."""
        rank, number = stream
        kind = self._class_of[rank]
        queue = self._ops.queues[kind][number]
        step, at = divmod(self._done[rank][number], len(queue))
        op = queue[at]
        self.ends[step, self._rank_ops_of[rank] + op] = self._now
        self._ended[rank][op] += 1
        self._done[rank][number] += 1
        self._busy[rank][number] = False
        return [stream, *((rank, other) for other in self._ops.wakes[kind][op])]

    def _reach(self, key: StepInstance, place: int, stream: Stream) -> bool:
        """Let a stream reach its part, as member ``place``; returns whether that ends at once."""
        instance = key[1]
        if instance in self._ends_of:
            other = self._alone.pop(key, None)
            if other is None:
                self._alone[key] = stream
                return False
            src, dst, nbytes = self._ends_of[instance]
            token = self._network.send(src, dst, nbytes, self._now)
            self._waiting[token, MESSAGE] = (other, stream)
        elif instance in self._group_of:
            if key not in self._tokens:
                assignment, group = self._group_of[instance]
                devices = assignment.devices[group]
                begun = self._network.begin(
                    assignment.schedule, devices, assignment.effective_bytes
                )
                self._tokens[key] = begun
            token = self._tokens[key]
            self._waiting[token, place] = (stream,)
            self._network.enter(token, place, self._now)
        else:
            return True  # a group of one rank
        return False


class _Computing:
    """What ops of streams have ``left``: seconds of a core or, of those that rest, of idle ones.

    Cores go to those that ``wait`` longest, who ``run`` for what is left of their slice.
    """

    def __init__(self, hosts: list[int], cores: float) -> None:
        self._hosts, self._cores = hosts, cores
        self._left: dict[Stream, float] = {}
        self._rests: set[Stream] = set()
        self._wait: list[tuple[float, Stream]] = []
        self._run: dict[Stream, float] = {}

    def begin(self, stream: Stream, seconds: float, now: float, *, rests: bool) -> None:
        self._left[stream] = seconds
        if rests:
            self._rests.add(stream)
        else:
            self._wait.append((now, stream))

    def until(self, now: float) -> float:
        """When the first is done, or its slice over, if none begins before; inf where none is."""
        for asked, stream in sorted(self._wait):
            if self._idle(stream) > 0:
                self._wait.remove((asked, stream))
                self._run[stream] = SLICE_S if self._cores < inf else inf
        ends = [now + min(self._left[one], slice_s) for one, slice_s in self._run.items()]
        ends += [now + self._left[one] / self._pace(one) for one in self._rests]
        return min(ends, default=inf)

    def over(self, before: float, now: float) -> list[Stream]:
        """Those that are done now, after what they did from ``before`` on."""
        for stream in self._rests:
            pace = self._pace(stream)
            self._left[stream] -= pace * (now - before) if pace < inf else self._left[stream]
        for stream in self._run:
            self._left[stream] -= now - before
            self._run[stream] -= now - before
        done = [one for one in [*self._run, *self._rests] if self._left[one] <= 1e-12 * now]
        for stream in done:
            del self._left[stream]
            self._run.pop(stream, None)
            self._rests.discard(stream)
        for stream in [one for one, slice_s in self._run.items() if slice_s <= 1e-12 * now]:
            del self._run[stream]
            self._wait.append((now, stream))
        return done

    def _idle(self, stream: Stream) -> float:
        host = self._hosts[stream[0]]
        return self._cores - sum(self._hosts[rank] == host for rank, _ in self._run)

    def _pace(self, stream: Stream) -> float:
        idle = self._idle(stream)
        return 1.0 if idle == inf else self._cores / idle if idle else inf


class _Ops:
    """The queues as Python lists, which a loop reads faster: first by class, then by op."""

    def __init__(self, queues: Queues) -> None:
        lists = [slice(*bounds) for bounds in pairwise(queues.ops_of.tolist())]
        after = _split(queues.after, queues.after_of)
        wakes = _split(queues.wakes, queues.wakes_of)
        self.code = [queues.code[own].tolist() for own in lists]
        self.seconds = [queues.seconds[own].tolist() for own in lists]
        self.part = [queues.part[own].tolist() for own in lists]
        self.after = [after[own] for own in lists]
        self.wakes = [wakes[own] for own in lists]
        self.sizes = np.diff(queues.ops_of).tolist()
        self.queues = [
            [queues.queue[first:last].tolist() for first, last in pairwise(bounds)]
            for bounds in queues.queue_of.tolist()
        ]


def _split(values: Ints, bounds: Ints) -> list[list[int]]:
    return [values[first:last].tolist() for first, last in pairwise(bounds.tolist())]


def _groups_of(plan: Plan, matching: Matching) -> dict[int, tuple[Assignment, int]]:
    """The Assignment of each instance of a collective, and the number of its group."""
    found = {}
    for assignment in plan.assignments:
        made = matching.instances[assignment.number]
        group_of = dict(zip(assignment.own.tolist(), range(assignment.own.size), strict=True))
        for instance, group in zip(made.numbers.tolist(), made.group.tolist(), strict=True):
            if group in group_of:
                found[instance] = assignment, group_of[group]
    return found


def _ends_of(plan: Plan, matching: Matching) -> dict[int, tuple[int, int, float]]:
    """By instance of a message: devices of sender and receiver, and its effective bytes."""
    found = {}
    for one in plan.messages:
        made = matching.instances[one.number]
        ends = one.devices[made.group].tolist()
        for instance, (src, dst) in zip(made.numbers.tolist(), ends, strict=True):
            found[instance] = src, dst, float(one.effective_bytes)
    return found
