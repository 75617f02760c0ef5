"""Running a program on live ranks, step after step."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steptime.clock import now
from steptime.collectives.call_bytes import Traffic
from steptime.host_memory import resident_bytes
from steptime.measure.exact import ExactData
from steptime.measure.operation import OPERATIONS
from steptime.program import Collective, Compute, Op, Program, Recv, Send, Wait
from steptime.replay.buffers import Buffers, put, wrong
from steptime.replay.clocks import TransportPeers
from steptime.replay.device import Device
from steptime.replay.extent import Extent, extent
from steptime.replay.placement import IN_PLACE, in_order, layout, pieces
from steptime.replay.recording import Recording
from steptime.replay.standin import StandIn
from steptime.replay.streams import Streams, Turn
from steptime.replay.transport import Begin, GroupCall, ReplayTransport
from steptime.world.alignment import Alignment, read_clocks
from steptime.world.wire import wire_traffic


@dataclass(frozen=True, kw_only=True)
class RankReplay:
    """The measurements of a rank over the timed steps.

    ``bounds``: when each step began and the last ended, shape (steps + 1,), in seconds of the
    host's clock. ``spent``: the seconds of each step by what the main stream did, arrays of shape
    (steps,): ``compute``, ``update``, and the axes whose communication it waited for.
    ``under_way``: the seconds that the calls of each step took, added up by axes. ``rows``: when
    each op of the last steps began and ended, dtype ROW, ``place`` being that in the rank's list.
    ``wire``: bytes over TCP in all timed steps, None where the kernel has no count. ``alignment``:
    the clocks of all hosts relative to rank 0's. ``checked`` elements were compared, warm-up
    included, of which ``wrong`` were wrong. ``resident_bytes``: memory of the process after the
    last step, 0 where unknown.
    """

    bounds: NDArray[np.float64]
    spent: dict[str, NDArray[np.float64]]
    under_way: dict[str, NDArray[np.float64]]
    rows: NDArray[np.void]
    wire: Traffic | None
    alignment: Alignment
    checked: int
    wrong: int
    resident_bytes: int


def replay(
    program: Program,
    transport: ReplayTransport,
    *,
    steps: int,
    warmup: int,
    compute: StandIn,
    device: Device,
    verify: bool = False,
    seed: int = 0,
    messages: str = "fp32",
) -> RankReplay:
    """Run this rank's part of ``program``, which must have passed ``check`` and ``match_calls``.

    Every rank calls it alike. After ``warmup`` steps and a barrier ``steps`` are timed, without a
    pause between them. ``compute`` stands in for computing on ``device``. With ``verify`` every
    call gets data of its own and all received data is compared, which takes time within the steps.
    ``messages``: the dtype of what Sends carry.

    Raises what the library raises.
    """
    run = _Run(program, transport, compute, device, verify, seed, messages, warmup + steps)
    for axes in dict.fromkeys(
        op.group for ops in program.lists for op in ops if isinstance(op, Collective)
    ):
        groups = program.groups(axes)
        run.place_in[axes] = tuple(int(at[0]) for at in (groups == transport.world.rank).nonzero())
        if groups.shape[1] > 1:
            transport.form_groups(axes, groups)
    transport.connect(_pairs(program))
    run.make_ready()
    run.steps(0, warmup)
    peers = TransportPeers(transport.world)
    clocks = read_clocks(peers)
    transport.world.barrier()
    before = wire_traffic()
    bounds = run.steps(warmup, steps)
    transport.world.barrier()
    after = wire_traffic()
    resident = resident_bytes()
    alignment = Alignment(clocks, read_clocks(peers))
    transport.close()
    return RankReplay(
        bounds=np.array(bounds),
        spent=run.kept.spent(warmup, steps),
        under_way=run.kept.under_way(warmup, steps),
        rows=run.kept.rows(warmup),
        wire=after.minus(before) if before and after else None,
        alignment=alignment,
        checked=run.checked,
        wrong=run.wrong,
        resident_bytes=resident,
    )


def _pairs(program: Program) -> list[tuple[int, int]]:
    """Every pair of a sending rank and its receiver."""
    found: set[tuple[int, int]] = set()
    for kind, ops in enumerate(program.lists):
        own = (program.class_of == kind).nonzero()[0]
        for axis, by in {(op.axis, op.by) for op in ops if isinstance(op, Send)}:
            found |= set(zip(own.tolist(), program.peer(axis, by)[own].tolist(), strict=True))
    return sorted(found)


class _Run:
    """One rank's run in progress."""

    def __init__(
        self,
        program: Program,
        transport: ReplayTransport,
        compute: StandIn,
        device: Device,
        verify: bool,
        seed: int,
        messages: str,
        steps: int,
    ) -> None:
        self.program, self.transport, self.compute = program, transport, compute
        self.verify, self.seed = verify, seed
        self.place_in: dict[tuple[str, ...], tuple[int, ...]] = {}
        self.checked = self.wrong = 0
        self.rank = transport.world.rank
        self.ops = program.lists[program.class_of[self.rank]]
        self.extents = [
            extent(program, op, messages) if isinstance(op, Collective | Send | Recv) else None
            for op in self.ops
        ]
        self.buffers = Buffers(transport, layout(self.ops, self.extents, distinct=verify), seed)
        self.streams = Streams(self.ops)
        self.kept = Recording(self.ops, steps)
        self.seconds = [device.seconds(op) if isinstance(op, Compute) else 0.0 for op in self.ops]
        self.pending: list[Turn] = []
        self.begins: list[Begin | None] = []
        self.blocking: dict[int, Callable[[], object] | None] = {}
        self.computing = False
        self.waited_for = ""
        self.growing: set[int] = set()
        self.step = 0
        self.peers = {
            (op.axis, op.by): int(program.peer(op.axis, op.by)[self.rank])
            for op in self.ops
            if isinstance(op, Send | Recv)
        }

    def make_ready(self) -> None:
        """Prepare every call, once the groups exist."""
        self.begins = [self._begin_of(place, op) for place, op in enumerate(self.ops)]

    def _begin_of(self, place: int, op: Op) -> Begin | None:
        """The function that begins the call of an op; None where it has no call."""
        size = self.extents[place]
        if size is None or size.members == 1 or isinstance(op, Compute | Wait):
            return None
        read, written = self.buffers.of(place, size)
        if isinstance(op, Collective):
            if op.kind in IN_PLACE and (self.transport.sums_in_place or not len(read)):
                self.growing.add(place)
            call = GroupCall(op.kind, op.group, *in_order(op.kind, read, written), op.root)
            self.blocking[place] = self.transport.blocking(call)
            return self.transport.collective(call)
        peer, cuts = self.peers[op.axis, op.by], pieces(size.whole, size.dtype)
        if isinstance(op, Recv):
            return self.transport.receive([written[cut] for cut in cuts], peer, op.tag)
        if not self.verify:  # each piece is the first one again
            cuts = [slice(0, cut.stop - cut.start) for cut in cuts]
        return self.transport.send([read[cut] for cut in cuts], peer, op.tag)

    def steps(self, first: int, count: int) -> list[float]:
        """Run ``count`` steps to their end; when each began and the last ended on MAIN."""
        streams = self.streams
        bounds = [now()]
        for step in range(first, first + count):
            self.step = step
            streams.add_step(step)
            self._until(streams.main_is_done)
            bounds.append(now())
        self.step = first + count  # what the last step leaves under way is in no step
        self._until(streams.done)
        return bounds

    def _until(self, done: Callable[[], bool]) -> None:
        while not done():
            if self.pending or self.streams.calls:
                self._see_to_calls()
            if self.streams.computations:
                self._compute(self.streams.computations.popleft())
            elif self.pending and not done():
                self._await()

    def _see_to_calls(self) -> None:
        """Advance calls while nothing computes; the time counts to what the main stream awaits."""
        start = now()
        self.waited_for = self.streams.held_up_by() if self.pending else ""
        if self._advance() and not self.waited_for:
            self.waited_for = self.streams.held_up_by()
        self.kept.spend(self.waited_for, self.step, now() - start)

    def _await(self) -> None:
        start, label = now(), self.streams.held_up_by()
        self.transport.wait_for_any([turn.pending for turn in self.pending])
        self.kept.spend(label, self.step, now() - start)

    def _rest(self, seconds: float) -> None:
        self.transport.wait_for_any([turn.pending for turn in self.pending], seconds)

    def _compute(self, turn: Turn) -> None:
        began = now()
        self.streams.begin(turn)
        self.computing = True
        self.compute(self.seconds[turn.place], self._advance, self._rest)
        self.computing = False
        self.streams.end(turn)
        ended = now()
        self.kept.ran(turn.place, turn.step.number, began, ended, self.step)

    def _advance(self) -> bool:
        """End calls that are done and begin those that can; returns whether any is in progress."""
        pending, calls = self.pending, self.streams.calls
        while pending or calls:
            for turn in [turn for turn in pending if turn.pending and turn.pending.done()]:
                pending.remove(turn)
                self._check(turn)
                self._end(turn)
            if not calls:
                break
            while calls:
                self._begin(calls.popleft())
        return bool(pending)

    def _begin(self, turn: Turn) -> None:
        self.streams.begin(turn)
        begin = self.begins[turn.place]
        if begin is None:
            self.streams.end(turn)
            return
        self._prepare(turn)
        turn.began = now()
        block = self.blocking.get(turn.place)
        if block and not self.computing and self.streams.all_wait_for(turn):
            block()
            self.waited_for = self.kept.labels[turn.place]
            self._check(turn)
            self._end(turn)
        else:
            turn.pending = begin()
            self.pending.append(turn)

    def _end(self, turn: Turn) -> None:
        step = turn.step.number
        self.kept.ran(turn.place, step, turn.began, now(), step)
        turn.pending = None
        self.streams.end(turn)

    def _prepare(self, turn: Turn) -> None:
        """Fill or refresh the data of a call before it begins."""
        if not self.verify and turn.place not in self.growing:
            return
        op, size = turn.op, self.extents[turn.place]
        if size is None or isinstance(op, Recv | Wait | Compute):
            return
        if self.verify:
            member, data = self._data(turn, op, size)
            read, written = self.buffers.of(turn.place, size)
            put(self.transport.world, data, member, read if len(read) else written)
        elif isinstance(op, Collective):
            self.buffers.keep_finite(turn.place, op, size)

    def _check(self, turn: Turn) -> None:
        """Compare what a call has received."""
        if not self.verify:
            return
        op, size = turn.op, self.extents[turn.place]
        if size is None or isinstance(op, Send | Wait | Compute):
            return
        member, data = self._data(turn, op, size)
        _, written = self.buffers.of(turn.place, size)
        checked, bad = wrong(self.transport.world, data, member, written)
        self.checked += checked
        self.wrong += bad

    def _data(
        self, turn: Turn, op: Collective | Send | Recv, size: Extent
    ) -> tuple[int, ExactData]:
        """The data of this call, distinct from any other's, and this rank's place in the group."""
        dtype, trial = self.transport.element(size.dtype), self.seed
        if isinstance(op, Collective):
            group, member = self.place_in[op.group]
            trial = trial << 64 | self.streams.number(turn) << 32 | group
            kind, root = op.kind, op.root
        else:
            src, dst = self.rank, self.peers[op.axis, op.by]
            if isinstance(op, Recv):
                src, dst = dst, src
            trial = trial << 128 | op.tag << 96 | self.streams.number(turn) << 64 | src << 32 | dst
            kind, root, member = "sendrecv", 0, int(isinstance(op, Recv))
        return member, ExactData(
            OPERATIONS[kind], dtype, "sum", size.members, root, size.count, trial
        )
