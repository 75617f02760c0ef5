"""Running a program on live ranks, step after step."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from steptime.measure.exact import ExactData
from steptime.measure.operation import OPERATIONS
from steptime.program import Collective, Compute, Program, Recv, Send, Wait
from steptime.replay.buffers import Buffers, put, wrong
from steptime.replay.calls import Caller, GroupCall, Pending
from steptime.replay.demand import Extent, extent, label_of
from steptime.replay.device import Device
from steptime.replay.standin import StandIn
from steptime.replay.streams import Streams, Turn
from steptime.timeline import Phase
from steptime.world.traffic import Traffic
from steptime.world.wire import wire_traffic

_KEPT_ROWS = 5_000
"""So many intervals of a rank are kept, or those of two steps: the last ones."""

ROW = np.dtype(
    [("place", np.int32), ("step", np.int32), ("start", np.float64), ("end", np.float64)]
)


@dataclass(frozen=True, kw_only=True)
class RankReplay:
    """What a rank measured over the timed steps.

    ``bounds``: when each step began and the last ended, shape (steps + 1,), in seconds of the
    host's clock. ``spent``: the seconds of each step by what the main stream did, arrays of shape
    (steps,): ``compute``, ``update``, and the axes whose communication it waited for.
    ``under_way``: the seconds that the calls of each step took, added up by axes. ``rows``: when
    each op of the last steps began and ended, dtype ROW, ``place`` being that in the rank's list.
    ``wire``: bytes over TCP in all timed steps, None where the kernel does not say. ``checked``
    elements were compared, warm-up included, of which ``wrong`` were not what they must be.
    """

    bounds: NDArray[np.float64]
    spent: dict[str, NDArray[np.float64]]
    under_way: dict[str, NDArray[np.float64]]
    rows: NDArray[np.void]
    wire: Traffic | None
    checked: int
    wrong: int


def replay(
    program: Program,
    caller: Caller,
    *,
    steps: int,
    warmup: int,
    compute: StandIn,
    device: Device,
    verify: bool = False,
    seed: int = 0,
    messages: str = "fp32",
) -> RankReplay:
    """Run this rank's part of ``program``, which must have passed ``check`` and ``meetings``.

    Every rank calls it alike. After ``warmup`` steps and a barrier ``steps`` are timed, with
    nothing between one and the next. ``compute`` stands in for what computing takes on ``device``.
    With ``verify`` every call gets data of its own and everything received is compared: that takes
    time within the steps. ``messages``: the dtype of what Sends carry.

    Raises what the library raises.
    """
    run = _Run(program, caller, compute, device, verify, seed, messages)
    for axes in dict.fromkeys(
        op.group for ops in program.lists for op in ops if isinstance(op, Collective)
    ):
        groups = program.groups(axes)
        run.place_in[axes] = tuple(int(at[0]) for at in (groups == caller.carrier.rank).nonzero())
        if groups.shape[1] > 1:
            caller.form_groups(axes, groups)
    run.steps(0, warmup)
    caller.carrier.barrier()
    before = wire_traffic()
    run.forget()
    bounds = run.steps(warmup, steps)
    caller.carrier.barrier()
    after = wire_traffic()
    caller.close()
    return RankReplay(
        bounds=np.array(bounds),
        spent=_by_step(run.spent, warmup, steps),
        under_way=_by_step(run.under_way, warmup, steps),
        rows=np.array(run.rows[-run.kept :], ROW),
        wire=after.minus(before) if before and after else None,
        checked=run.checked,
        wrong=run.wrong,
    )


def _by_step(
    found: dict[tuple[str, int], float], first: int, steps: int
) -> dict[str, NDArray[np.float64]]:
    return {
        what: np.array([found.get((what, first + step), 0.0) for step in range(steps)])
        for what in sorted({what for what, _ in found})
    }


@dataclass
class _Run:
    """One rank under way."""

    program: Program
    caller: Caller
    compute: StandIn
    device: Device
    verify: bool
    seed: int
    messages: str
    place_in: dict[tuple[str, ...], tuple[int, ...]] = field(default_factory=dict)
    spent: dict[tuple[str, int], float] = field(default_factory=dict)
    under_way: dict[tuple[str, int], float] = field(default_factory=dict)
    rows: list[tuple[int, int, float, float]] = field(default_factory=list)
    checked: int = 0
    wrong: int = 0

    def __post_init__(self) -> None:
        self.rank = self.caller.carrier.rank
        self.ops = self.program.lists[self.program.class_of[self.rank]]
        self.extents = [
            extent(self.program, op, self.messages)
            if isinstance(op, Collective | Send | Recv)
            else None
            for op in self.ops
        ]
        self.buffers = Buffers(self.caller, self.program, self.ops, self.seed, self.messages)
        self.streams = Streams(self.ops)
        self.kept = max(_KEPT_ROWS, 2 * len(self.ops))
        self.pending: list[Turn] = []
        self.step = 0
        self.peers = {
            (op.axis, op.by): int(self.program.peer(op.axis, op.by)[self.rank])
            for op in self.ops
            if isinstance(op, Send | Recv)
        }

    def forget(self) -> None:
        """Forget what was recorded of the warm-up."""
        self.spent.clear()
        self.under_way.clear()
        self.rows.clear()

    def steps(self, first: int, count: int) -> list[float]:
        """Run some steps to their very end; when each began and the last ended on MAIN."""
        bounds = [time.perf_counter()]
        for step in range(first, first + count):
            self.step = step
            self.streams.add_step(step)
            self._until(lambda: self.streams.main_is_done)
            bounds.append(time.perf_counter())
            if len(self.rows) > 2 * self.kept:
                del self.rows[: -self.kept]
        self.step = first + count  # what the last step leaves under way is in no step
        self._until(lambda: self.streams.done)
        return bounds

    def _until(self, done: Callable[[], bool]) -> None:
        while not done():
            self._advance()
            turn = next((t for t in self.streams.ready() if isinstance(t.op, Compute)), None)
            if turn is not None and isinstance(turn.op, Compute):
                self._compute(turn, turn.op)
            elif done():
                return
            elif self.pending:
                self._await()

    def _await(self) -> None:
        start, label = time.perf_counter(), self.streams.held_up_by()
        self.caller.wait_for_any([pending for t in self.pending if (pending := t.pending)])
        _count(self.spent, (label, self.step), time.perf_counter() - start)

    def _compute(self, turn: Turn, op: Compute) -> None:
        self._begin(turn)
        self.compute(self.device.seconds(op), self._advance)
        self._end(turn)
        what = "update" if op.phase == Phase.UPDATE else "compute"
        _count(self.spent, (what, self.step), time.perf_counter() - turn.began)

    def _advance(self) -> bool:
        """End what is done and begin what may begin; whether anything is under way."""
        moved = True
        while moved:
            moved = False
            for turn in [t for t in self.pending if t.pending and t.pending.done()]:
                self.pending.remove(turn)
                self._check(turn)
                self._end(turn)
                moved = True
            for turn in self.streams.ready():
                if not isinstance(turn.op, Compute):
                    self._begin(turn)
                    turn.pending = self._call(turn)
                    if turn.pending is None:
                        self._end(turn)
                    else:
                        self.pending.append(turn)
                    moved = True
        return bool(self.pending)

    def _begin(self, turn: Turn) -> None:
        self.streams.begin(turn)
        turn.began = time.perf_counter()

    def _end(self, turn: Turn) -> None:
        self.streams.end(turn)
        turn.pending, now = None, time.perf_counter()
        self.rows.append((turn.place, turn.step, turn.began, now))
        if isinstance(turn.op, Collective | Send | Recv):
            _count(self.under_way, (label_of(turn.op), turn.step), now - turn.began)

    def _call(self, turn: Turn) -> Pending | None:
        """Begin what a turn calls; None where that is nothing."""
        op, size = turn.op, self.extents[turn.place]
        if isinstance(op, Wait | Compute) or size is None or size.members == 1:
            return None
        both = self.buffers.of(op, size)
        if self.verify:
            if not isinstance(op, Recv):
                member, data = self._data(turn, op, size)
                put(self.caller.carrier, data, member, data.operation.name, both)
        else:
            self.buffers.keep_finite(op, size)
        match op:
            case Collective():
                return self.caller.begin(GroupCall(op.kind, op.group, *both, op.root))
            case Send():
                return self.caller.send(both[0], self.peers[op.axis, op.by], op.tag)
            case Recv():
                return self.caller.receive(both[0], self.peers[op.axis, op.by], op.tag)

    def _check(self, turn: Turn) -> None:
        op, size = turn.op, self.extents[turn.place]
        if not self.verify or size is None or isinstance(op, Send | Wait | Compute):
            return
        member, data = self._data(turn, op, size)
        both = self.buffers.of(op, size)
        checked, bad = wrong(self.caller.carrier, data, member, data.operation.name, both)
        self.checked += checked
        self.wrong += bad

    def _data(
        self, turn: Turn, op: Collective | Send | Recv, size: Extent
    ) -> tuple[int, ExactData]:
        """Which member this rank is, and the data of this one call among all."""
        dtype, trial = self.caller.element(size.dtype), self.seed
        if isinstance(op, Collective):
            group, member = self.place_in[op.group]
            trial = trial << 64 | turn.number << 32 | group
            kind, root = op.kind, op.root
        else:
            src, dst = self.rank, self.peers[op.axis, op.by]
            if isinstance(op, Recv):
                src, dst = dst, src
            trial = trial << 128 | op.tag << 96 | turn.number << 64 | src << 32 | dst
            kind, root, member = "sendrecv", 0, int(isinstance(op, Recv))
        return member, ExactData(
            OPERATIONS[kind], dtype, "sum", size.members, root, size.count, trial
        )


def _count(where: dict[tuple[str, int], float], what: tuple[str, int], seconds: float) -> None:
    where[what] = where.get(what, 0.0) + seconds
