"""MSCCL XML: a schedule as programs of thread blocks, for the MSCCL runtime."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from xml.etree import ElementTree

from steptime.collectives.schedule import Round, Schedule
from steptime.errors import UsageError

# src/include/msccl.h of microsoft/msccl@b23e9cd
_MAX_STEPS = 256
_MAX_BLOCKS = 216
_MAX_PEERS = 32
_MAX_COUNT = 71

_NAMES = MappingProxyType(
    {
        "all_reduce": "allreduce",
        "reduce_scatter": "reduce_scatter",
        "all_gather": "allgather",
        "broadcast": "broadcast",
        "reduce": "reduce",
        "scatter": "custom",
        "gather": "custom",
        "all_to_all": "alltoall",
    }
)

Peers = tuple[int, int]
"""The rank a thread block sends to and the one it receives from, -1 for none."""


def msccl_xml(schedule: Schedule) -> str:
    """The MSCCL program of a schedule, in place but for all_to_all.

    A thread block sends to one peer or receives from one; messages between two ranks are the
    steps of one block at each end, in the order of the rounds. A step waits for the steps of
    other blocks that wrote what it reads, or used what it overwrites; where it waits for several,
    ``nop`` steps before it wait for the rest.

    Elements and attributes are those of msccl/language/ir.py of microsoft/msccl-tools@030a750;
    the limits are those of microsoft/msccl@b23e9cd. Raises UsageError for a barrier, which moves
    no data, and for what is beyond these limits.
    """
    kind = schedule.collective.name
    if kind not in _NAMES:
        raise UsageError(f"MSCCL has no {kind}: export one of {', '.join(_NAMES)}")
    gpus = [_Gpu() for _ in range(schedule.ranks)]
    for transfers in schedule.rounds():
        for piece in _pieces(schedule, transfers):
            if piece["src"] != piece["dst"]:
                gpus[piece["src"]].send(piece)
        for piece in _pieces(schedule, transfers):
            if piece["src"] == piece["dst"]:
                gpus[piece["src"]].copy(piece)
            else:
                gpus[piece["dst"]].receive(piece)
        for gpu in gpus:
            gpu.written_in_round.clear()
    _check_limits(schedule, gpus)
    return _xml(schedule, gpus)


def _pieces(schedule: Schedule, transfers: Round) -> Iterator[dict[str, int]]:
    """The transfers, cut where a range leaves a buffer or is more than a step may move."""
    edges = (schedule.chunks, schedule.result + schedule.chunks, schedule.slots)
    for row in transfers:
        piece = {name: int(row[name]) for name in row.dtype.names}
        end = piece["first"] + piece["count"]
        while piece["first"] < end:
            ahead = [e - piece[n] for e in edges for n in ("first", "into") if e > piece[n]]
            count = min(_MAX_COUNT, end - piece["first"], *ahead)
            yield piece | {"count": count}
            piece = piece | {"first": piece["first"] + count, "into": piece["into"] + count}


@dataclass(frozen=True)
class _Step:
    """One step of a thread block: its type, what it moves, and the step it depends on."""

    type: str
    piece: dict[str, int] | None
    waits: tuple[Peers, int] | None


@dataclass
class _Gpu:
    """One rank's thread blocks as they are written, and the last steps that used each slot."""

    blocks: dict[Peers, list[_Step]] = field(default_factory=dict)
    writer: dict[int, tuple[Peers, int]] = field(default_factory=dict)
    readers: dict[int, list[tuple[Peers, int]]] = field(default_factory=lambda: defaultdict(list))
    waited: dict[tuple[Peers, Peers], int] = field(default_factory=dict)
    written_in_round: set[int] = field(default_factory=set)

    def send(self, piece: dict[str, int]) -> None:
        source = range(piece["first"], piece["first"] + piece["count"])
        step = self._add((piece["dst"], -1), "s", piece, self._writers(source))
        self._read(source, step)

    def receive(self, piece: dict[str, int]) -> None:
        target = range(piece["into"], piece["into"] + piece["count"])
        kind = "rrc" if piece["reduce"] else "r"
        self._write(target, self._add((-1, piece["src"]), kind, piece, self._users(target)))

    def copy(self, piece: dict[str, int]) -> None:
        source = range(piece["first"], piece["first"] + piece["count"])
        target = range(piece["into"], piece["into"] + piece["count"])
        if not self.written_in_round.isdisjoint(source):
            raise UsageError(
                f"MSCCL cannot express that rank {piece['src']} moves slot {piece['first']} within "
                "its memory in the round in which it is written: do that in a round of its own"
            )
        kind = "re" if piece["reduce"] else "cpy"
        waits = self._writers(source) + self._users(target)
        step = self._add((-1, -1), kind, piece, waits)
        self._read(source, step)
        self._write(target, step)

    def _writers(self, slots: range) -> list[tuple[Peers, int]]:
        return [self.writer[slot] for slot in slots if slot in self.writer]

    def _users(self, slots: range) -> list[tuple[Peers, int]]:
        return self._writers(slots) + [reader for slot in slots for reader in self.readers[slot]]

    def _read(self, slots: range, step: tuple[Peers, int]) -> None:
        for slot in slots:
            self.readers[slot].append(step)

    def _write(self, slots: range, step: tuple[Peers, int]) -> None:
        for slot in slots:
            self.writer[slot] = step
            self.readers[slot].clear()
        self.written_in_round.update(slots)

    def _add(
        self, block: Peers, kind: str, piece: dict[str, int], after: list[tuple[Peers, int]]
    ) -> tuple[Peers, int]:
        """Write a step, with a nop for each dependency but one."""
        steps = self.blocks.setdefault(block, [])
        latest: dict[Peers, int] = {}
        for other, index in after:
            known = self.waited.get((block, other), -1)
            if other != block and index > max(known, latest.get(other, -1)):
                latest[other] = index
        for other, index in latest.items():
            self.waited[block, other] = index
        *first, last = latest.items() or [None]
        steps += [_Step("nop", None, wait) for wait in first]
        steps.append(_Step(kind, piece, last))
        return block, len(steps) - 1


def _check_limits(schedule: Schedule, gpus: list[_Gpu]) -> None:
    blocks = max(len(gpu.blocks) for gpu in gpus)
    peers = max(sum(send >= 0 for send, _ in gpu.blocks) for gpu in gpus)
    peers = max(peers, *(sum(recv >= 0 for _, recv in gpu.blocks) for gpu in gpus))
    steps = max((len(steps) for gpu in gpus for steps in gpu.blocks.values()), default=0)
    for what, much, most in (
        ("thread blocks on a GPU", blocks, _MAX_BLOCKS),
        ("peers on a channel", peers, _MAX_PEERS),
        ("steps in a thread block", steps, _MAX_STEPS),
    ):
        if much > most:
            raise UsageError(
                f"the {schedule.collective.name} {schedule.algorithm!r} of {schedule.ranks} ranks "
                f"needs {much} {what} and MSCCL has at most {most}: export it for fewer ranks"
            )


def _xml(schedule: Schedule, gpus: list[_Gpu]) -> str:
    chunks, kind = schedule.chunks, schedule.collective.name
    root = _element(
        None,
        "algo",
        name=f"{kind}_{schedule.algorithm}_{schedule.ranks}",
        proto="Simple",
        nchannels=1,
        nchunksperloop=chunks,
        ngpus=schedule.ranks,
        coll=_NAMES[kind],
        inplace=int(not schedule.collective.separate_result),
    )
    for rank, gpu in enumerate(gpus):
        element = _element(
            root,
            "gpu",
            id=rank,
            i_chunks=1 if kind == "all_gather" else chunks,
            o_chunks=1 if kind == "reduce_scatter" else chunks,
            s_chunks=schedule.scratch,
        )
        ids = {block: number for number, block in enumerate(sorted(gpu.blocks))}
        awaited = {s.waits for steps in gpu.blocks.values() for s in steps if s.waits}
        for block, number in ids.items():
            send, recv = block
            body = _element(element, "tb", id=number, send=send, recv=recv, chan=0)
            for index, step in enumerate(gpu.blocks[block]):
                other, waited = step.waits or (None, -1)
                _element(
                    body,
                    "step",
                    s=index,
                    type=step.type,
                    **_moved(schedule, step),
                    depid=ids[other] if other else -1,
                    deps=waited,
                    hasdep=int((block, index) in awaited),
                )
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def _moved(schedule: Schedule, step: _Step) -> dict[str, Any]:
    """Source and destination of a step; a reduction reads its destination too."""
    if step.piece is None:
        return {"srcbuf": "i", "srcoff": -1, "dstbuf": "o", "dstoff": -1, "cnt": 0}
    source = "into" if step.type == "rrc" else "first"
    srcbuf, srcoff = _place(schedule, step.piece[source])
    dstbuf, dstoff = _place(schedule, step.piece["into"])
    count = step.piece["count"]
    return {"srcbuf": srcbuf, "srcoff": srcoff, "dstbuf": dstbuf, "dstoff": dstoff, "cnt": count}


def _place(schedule: Schedule, slot: int) -> tuple[str, int]:
    """The buffer and the offset of a slot; an all_gather in place only has its output."""
    if slot < schedule.chunks:
        return "o" if schedule.collective.name == "all_gather" else "i", slot
    if slot < schedule.result + schedule.chunks:
        return "o", slot - schedule.result
    return "s", slot - schedule.result - schedule.chunks


def _element(
    parent: ElementTree.Element | None, tag: str, **attributes: object
) -> ElementTree.Element:
    """An element with its attributes in their order, below ``parent`` if there is one."""
    words = {name: str(value) for name, value in attributes.items()}
    if parent is None:
        return ElementTree.Element(tag, words)
    return ElementTree.SubElement(parent, tag, words)
