"""MSCCL XML as an algorithm: the programs of thread blocks, scheduled into rounds.

A message gets the first round in which both its ends are ready: after the step before it in its
thread block, and after the step that it depends on. A send is done when its data is in the channel,
as in MSCCL: where its slot is overwritten before the receive, the data waits in a scratch slot.
Elements and attributes are those of msccl/language/ir.py of microsoft/msccl-tools@030a750.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from xml.etree.ElementTree import Element

from steptime.collectives.algorithm import Algorithm
from steptime.collectives.collective import Collective, collective_named
from steptime.collectives.schedule import Round, send, together
from steptime.errors import UsageError
from steptime.files import bounded_text, parsed_xml, reading
from steptime.nearest import mend

_MOST_BYTES = 64 << 20
_COLLECTIVES: Mapping[str, str] = MappingProxyType(
    {
        "allreduce": "all_reduce",
        "reduce_scatter": "reduce_scatter",
        "allgather": "all_gather",
        "broadcast": "broadcast",
        "reduce": "reduce",
        "alltoall": "all_to_all",
    }
)
_RECEIVES = ("r", "rrc", "rcs", "rrs", "rrcs")
_SENDS = ("s", "rcs", "rrs", "rrcs")

Key = tuple[int, int, int]
"""A step: its rank, its thread block and its number there."""


@dataclass(frozen=True)
class _Step:
    key: Key
    type: str
    source: int
    target: int
    count: int
    after: Key | None


@dataclass
class _Block:
    """A thread block being executed: its remaining steps, and the next round that it can use."""

    rank: int
    to: int
    of: int
    channel: int
    steps: deque[_Step]
    ready: int = 0


@dataclass(frozen=True)
class _Sent:
    """Data in a channel, not received yet: from which round on, and by which step."""

    key: Key
    ready: int
    source: int
    count: int


@dataclass(frozen=True)
class _Transfer:
    """Data read at the beginning of the round ``read`` and written in the round ``written``."""

    read: int
    written: int
    src: int
    dst: int
    first: int
    into: int
    count: int
    reduce: bool

    def writes(self, first: int, count: int) -> bool:
        """Whether it writes to one of ``count`` slots from ``first`` on, of its receiver."""
        return self.into < first + count and first < self.into + self.count


@dataclass
class _Program:
    """A program being executed: its transfers, and the round after each step."""

    name: str
    scratch: int  # the first slot that nothing in the program names
    transfers: list[_Transfer] = field(default_factory=list)
    added: Counter[int] = field(default_factory=Counter)  # slots of each rank beyond these
    done: dict[Key, int] = field(default_factory=dict)
    sent: set[Key] = field(default_factory=set)
    channels: dict[tuple[int, int, int], deque[_Sent]] = field(
        default_factory=lambda: defaultdict(deque)
    )

    def advance(self, block: _Block) -> bool:
        """Execute the next step of a block; False where it must wait."""
        step = block.steps[0]
        ready = block.ready
        if step.after is not None:
            if step.after not in self.done:
                return False
            # A reduction is added after all that its rank sends has left: it may share that round.
            shares = step.after in self.sent and step.type == "rrc" and step.source == step.target
            ready = max(ready, self.done[step.after] + (not shares))
        channel = self.channels[block.of, block.rank, block.channel]
        if step.type in _RECEIVES and not channel:
            return False
        block.steps.popleft()
        if step.type in _RECEIVES:
            self._receive(block, step, ready, channel.popleft())
        elif step.type == "s":
            self._send(block, step, ready, step.source)
        else:
            moves = step.type != "nop" and (step.type == "re" or step.source != step.target)
            if moves:
                self._move(block.rank, ready, step, reduce=step.type == "re")
            self.done[step.key] = ready
            block.ready = ready + moves
        return True

    def _receive(self, block: _Block, step: _Step, ready: int, message: _Sent) -> None:
        if message.count != step.count:
            raise UsageError(
                f"{self.name}: GPU {block.rank}, thread block {step.key[1]}, step {step.key[2]} "
                f"receives {step.count} chunks and is sent {message.count}"
            )
        reduces, target = step.type.startswith("rr"), step.target
        if step.type == "rrs":  # what it sends on stays nowhere: it takes slots of its own
            target = self._fresh(block.rank, step.count)
        if reduces and step.source != target:
            copy = _Step(step.key, "cpy", step.source, target, step.count, None)
            self._move(block.rank, ready, copy, reduce=False)
            ready += 1
        at = max(ready, message.ready)
        self.transfers.append(
            _Transfer(
                read=message.ready,
                written=at,
                src=message.key[0],
                dst=block.rank,
                first=message.source,
                into=target,
                count=step.count,
                reduce=reduces,
            )
        )
        block.ready = at + 1
        self.done[step.key] = at
        if step.type in _SENDS:
            self._send(block, step, at + 1, target)

    def _send(self, block: _Block, step: _Step, ready: int, source: int) -> None:
        channel = self.channels[block.rank, block.to, block.channel]
        channel.append(_Sent(step.key, ready, source, step.count))
        self.done[step.key] = ready
        self.sent.add(step.key)
        follows = block.steps[0].type if block.steps else "s"
        block.ready = ready + (follows not in ("s", "rrc"))

    def _move(self, rank: int, at: int, step: _Step, *, reduce: bool) -> None:
        self.transfers.append(
            _Transfer(at, at, rank, rank, step.source, step.target, step.count, reduce)
        )

    def _fresh(self, rank: int, count: int) -> int:
        """The first of ``count`` unused scratch slots of a rank."""
        first = self.scratch + self.added[rank]
        self.added[rank] += count
        return first

    def rounds(self) -> list[list[_Transfer]]:
        """The transfers by round; data that must wait in a channel goes through scratch slots."""
        by_round: dict[int, list[_Transfer]] = defaultdict(list)
        writing: dict[int, list[_Transfer]] = defaultdict(list)
        for one in self.transfers:
            writing[one.dst].append(one)
        for one in self.transfers:
            lost = one.read < one.written and any(
                other.writes(one.first, one.count)
                and one.read <= other.written < one.written + (not other.reduce)
                for other in writing[one.src]
            )
            if lost:
                kept = self._fresh(one.src, one.count)
                aside = replace(one, written=one.read, dst=one.src, into=kept, reduce=False)
                by_round[one.read].append(aside)
            by_round[one.written].append(replace(one, first=kept) if lost else one)
        return [by_round[number] for number in sorted(by_round)]


def read_msccl(path: Path) -> Algorithm:
    """The algorithm of an MSCCL program, for as many ranks as it has GPUs.

    Raises UsageError when there is no such file, it is no such program, it works out of place where
    the collective here is in place, or its steps wait for one another for ever.
    """
    with reading(path, "MSCCL program"):
        return _algorithm(path, path.stat().st_mtime_ns)


@cache
def _algorithm(path: Path, _saved: int) -> Algorithm:
    root = _parsed(path)
    kind = _collective(root, path)
    ranks, chunks = _number(root, "ngpus", path), _number(root, "nchunksperloop", path)
    if kind.per_rank and chunks != ranks:
        raise UsageError(
            f"{path} cuts the vector of {ranks} GPUs into {chunks} chunks: {kind.name} is read "
            "where each rank has one"
        )
    result = chunks if kind.separate_result else 0
    first_scratch = result + chunks
    scratch = first_scratch + max(
        (_number(gpu, "s_chunks", path) for gpu in root.iter("gpu")), default=0
    )
    program = _Program(f"{path}", scratch)
    _carry_out(program, list(_blocks(root, path, kind, chunks)))
    rounds = program.rounds()

    def generate(root: int) -> Iterator[Round]:
        for transfers in rounds:
            yield together(*(_turned(one, root, ranks, chunks, kind) for one in transfers))

    def of_no_root() -> Iterator[Round]:
        return generate(0)

    made: Callable[..., Iterator[Round]] = generate if kind.rooted else of_no_root
    made.__doc__ = f"The MSCCL program {path.name}, of {ranks} GPUs."
    used = program.scratch + max(program.added.values(), default=0) - first_scratch
    return Algorithm(
        kind, path.stem, made, lambda: chunks, lambda: used, lambda count: count == ranks
    )


def _turned(one: _Transfer, root: int, ranks: int, chunks: int, kind: Collective) -> Round:
    """A transfer rotated so that ``root`` takes rank 0's part; chunks move with their ranks."""
    src, dst, first, into = (one.src + root) % ranks, (one.dst + root) % ranks, one.first, one.into
    if kind.per_rank and root:
        first, into = ((s + root) % chunks if s < chunks else s for s in (first, into))
    return send(src, dst, first, one.count, into=into, reduce=one.reduce)


def _carry_out(program: _Program, blocks: list[_Block]) -> None:
    moved = True
    while moved:
        moved = False
        for block in blocks:
            while block.steps and program.advance(block):
                moved = True
    stuck = next((block.steps[0].key for block in blocks if block.steps), None)
    if stuck is not None:
        rank, number, step = stuck
        raise UsageError(
            f"{program.name}: step {step} of thread block {number} on GPU {rank} waits for what "
            "never comes"
        )
    left = next((sent[0].key for sent in program.channels.values() if sent), None)
    if left is not None:
        rank, number, step = left
        raise UsageError(
            f"{program.name}: nobody receives what step {step} of thread block {number} on GPU "
            f"{rank} sends"
        )


def _parsed(path: Path) -> Element:
    root = parsed_xml(bounded_text(path, "MSCCL program", _MOST_BYTES))
    if root.tag != "algo":
        raise UsageError(f"{path} is no MSCCL program: it begins with <{root.tag}>, not <algo>")
    return root


def _collective(root: Element, path: Path) -> Collective:
    coll = root.get("coll", "")
    name = _COLLECTIVES.get(coll, "")
    if coll == "custom":  # as our own are written: scatter_binomial_8
        first = root.get("name", "").partition("_")[0]
        name = first if first in ("scatter", "gather") else ""
    if not name:
        raise UsageError(f"{path} is of the collective {coll!r}: {mend(coll, _COLLECTIVES)}")
    kind = collective_named(name)
    if root.get("inplace") == "0" and name in ("all_reduce", "broadcast", "reduce"):
        raise UsageError(
            f"{path} works out of place, and {name} is in place here: make it with inplace"
        )
    return kind


def _blocks(root: Element, path: Path, kind: Collective, chunks: int) -> Iterator[_Block]:
    for gpu in root.iter("gpu"):
        rank = _number(gpu, "id", path)
        for body in gpu.iter("tb"):
            number = _number(body, "id", path)
            steps = deque(
                _step(element, (rank, number), path, kind, chunks) for element in body.iter("step")
            )
            to, of = _number(body, "send", path), _number(body, "recv", path)
            yield _Block(rank, to, of, _number(body, "chan", path), steps)


def _step(
    element: Element, block: tuple[int, int], path: Path, kind: Collective, chunks: int
) -> _Step:
    rank = block[0]
    result = chunks if kind.separate_result else 0
    # An all_gather has its own chunk as input, and a reduce_scatter as output.
    own_input, own_output = kind.name == "all_gather", kind.name == "reduce_scatter"
    begin = {
        "i": rank * own_input,
        "o": result + rank * own_output,
        "s": result + chunks,
    }

    def slot(end: str) -> int:
        buffer = element.get(f"{end}buf", "")
        if buffer not in begin:
            raise UsageError(f"{path}: a step has the {end}buf {buffer!r}: it must be i, o or s")
        return begin[buffer] + _number(element, f"{end}off", path)

    type_ = element.get("type", "")
    if type_ not in (*_RECEIVES, "s", "cpy", "re", "nop"):
        raise UsageError(f"{path}: a step has the type {type_!r}, which MSCCL has not")
    depends = _number(element, "depid", path)
    return _Step(
        key=(*block, _number(element, "s", path)),
        type=type_,
        source=slot("src"),
        target=slot("dst"),
        count=_number(element, "cnt", path),
        after=(rank, depends, _number(element, "deps", path)) if depends >= 0 else None,
    )


def _number(element: Element, name: str, path: Path) -> int:
    written = element.get(name, "")
    try:
        return int(written)
    except ValueError:
        raise UsageError(
            f"{path}: <{element.tag}> has the {name} {written!r}: it must be a whole number"
        ) from None
