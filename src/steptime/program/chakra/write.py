"""A Program as a folder of Chakra traces."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from steptime.arrays import Ints
from steptime.errors import UsageError
from steptime.files import write_atomic
from steptime.program.chakra.node import (
    Attribute,
    Int32,
    Node,
    NodeType,
    Uint64,
    metadata_record,
    node_record,
)
from steptime.program.kernel import Kernel, kernel_text
from steptime.program.program import Collective, Compute, Op, Program, Recv, Send, Wait
from steptime.timeline import Phase
from steptime.timeline.chrome import quietly

PREFIX = "step"
GROUPS_FILE = "comm_groups.json"
OWN = "steptime."
"""Prefix of the attributes for what Chakra's schema has no field for."""

COMM_TYPES = {
    "all_reduce": 0,
    "reduce": 1,
    "all_gather": 2,
    "gather": 3,
    "scatter": 4,
    "broadcast": 5,
    "all_to_all": 6,
    "reduce_scatter": 7,
    "barrier": 9,
}
SIZED_BY_RANK = ("all_gather", "gather")
"""For these comm_size is one rank's contribution, as ASTRA-sim's rings expect."""

_LARGEST = float(1 << 62)


def write_chakra(
    program: Program,
    folder: Path,
    tell: Callable[[int, int], None] = quietly,
    seconds: Sequence[Sequence[float]] = (),
) -> None:
    """Write a program to a folder: ``step.RANK.et`` for each rank, and ``comm_groups.json``.

    ASTRA-sim reads them as its workload, FOLDER/step, and as its communicator groups. Chakra has no
    streams, so an op's data dependencies are the ops it waits for and the op before it on its
    stream; those on the step before are left out. A Wait, and a collective of one rank, is metadata
    on the host, which ASTRA-sim passes at once, whatever the device does. ``read_chakra`` restores
    the very same program, from attributes of our own.

    ``tell(done, whole)`` is called with the ranks written. ``seconds``: the duration of each
    Compute, list by list, where not its own.

    Raises UsageError for a count above 64 bits, OSError when the files cannot be written.
    """
    places = _Places(program)
    written: dict[tuple[int, ...], bytes] = {}  # what ranks have in common is written once
    folder.mkdir(parents=True, exist_ok=True)
    before = [_before(ops) for ops in program.lists]
    took = seconds or [[_own_seconds(op) for op in ops] for ops in program.lists]
    for rank, number in enumerate(program.class_of.tolist()):
        records = [metadata_record(_own_metadata(program, number))]
        for place, op in enumerate(program.lists[number]):
            whom = places.whom(op, rank)
            key = number, place, *whom
            if key not in written:
                written[key] = node_record(
                    _node(op, place, before[number][place], whom, took[number][place])
                )
            records.append(written[key])
        write_atomic(folder / f"{PREFIX}.{rank}.et", b"".join(records))
        tell(rank + 1, program.ranks)
    write_atomic(folder / GROUPS_FILE, (json.dumps(places.groups) + "\n").encode())


@dataclass(frozen=True, eq=False)
class _Places:
    """The groups by number, as the files name them, and the peers of messages."""

    program: Program

    @cached_property
    def groups(self) -> dict[str, list[int]]:
        """The ranks of each group, by its number as text; 0 means none to ASTRA-sim."""
        rows = [row for _, _, rows in self._numbered.values() for row in rows.tolist()]
        return {str(number): row for number, row in enumerate(rows, start=1)}

    def whom(self, op: Op, rank: int) -> tuple[int, ...]:
        """Attributes of an op's partners: a group's number and members, or src and dst."""
        if isinstance(op, Collective):
            first, group_of, rows = self._numbered[op.group]
            return first + int(group_of[rank]), rows.shape[1]
        if isinstance(op, Send | Recv):
            peer = int(self._peers[op.axis, op.by][rank])
            return (rank, peer) if isinstance(op, Send) else (peer, rank)
        return ()

    @cached_property
    def _numbered(self) -> dict[tuple[str, ...], tuple[int, Ints, Ints]]:
        found: dict[tuple[str, ...], tuple[int, Ints, Ints]] = {}
        first = 1
        for op in self._ops():
            if isinstance(op, Collective) and op.group not in found:
                rows = self.program.groups(op.group)
                group_of = np.empty(self.program.ranks, np.int32)
                group_of[rows] = np.arange(len(rows), dtype=np.int32)[:, None]
                found[op.group] = first, group_of, rows
                first += len(rows)
        return found

    @cached_property
    def _peers(self) -> dict[tuple[str, int], Ints]:
        pairs = {(op.axis, op.by) for op in self._ops() if isinstance(op, Send | Recv)}
        return {pair: self.program.peer(*pair) for pair in sorted(pairs)}

    def _ops(self) -> Iterator[Op]:
        return (op for ops in self.program.lists for op in ops)


def _own_metadata(program: Program, number: int) -> Mapping[str, Attribute]:
    return {
        f"{OWN}program": program.name,
        f"{OWN}axes": tuple(program.axes),
        f"{OWN}sizes": tuple(program.axes.values()),
        f"{OWN}class": number,
    }


def _before(ops: Sequence[Op]) -> list[tuple[int, ...]]:
    """The ops of the same step that each op waits for, the one before it on its stream included."""
    last: dict[str, int] = {}
    found = []
    for place, op in enumerate(ops):
        awaited = [*(other for other in op.after if other >= 0), last.get(op.stream, -1)]
        found.append(tuple(dict.fromkeys(other for other in awaited if other >= 0)))
        last[op.stream] = place
    return found


def _own_seconds(op: Op) -> float:
    return (op.seconds or 0.0) if isinstance(op, Compute) else 0.0


def _node(
    op: Op, place: int, before: tuple[int, ...], whom: tuple[int, ...], seconds: float
) -> Node:
    """An op as a Chakra node, with attributes of our own for what the schema lacks."""
    attributes: dict[str, Attribute] = {}
    match op:
        case Compute():
            kind = NodeType.COMP
            attributes = {"num_ops": _count(op.flops), "tensor_size": Uint64(_count(op.nbytes))}
        case Collective():
            kind = NodeType.COMM_COLL
            attributes = _collective_attributes(op, *whom)
            if whom[1] == 1:  # nothing to do, and nothing that ASTRA-sim would end
                kind = NodeType.METADATA
        case Send() | Recv():
            kind = NodeType.COMM_SEND if isinstance(op, Send) else NodeType.COMM_RECV
            numbers = zip(("comm_src", "comm_dst", "comm_tag"), (*whom, op.tag), strict=True)
            attributes = {name: Int32(number) for name, number in numbers}
            attributes["comm_size"] = op.nbytes
        case Wait():
            kind = NodeType.METADATA
    every = {"is_cpu_op": kind is NodeType.METADATA, **attributes, **_own(op)}
    return Node(place, op.name, kind, before, _count(seconds * 1e6), every)


def _collective_attributes(op: Collective, number: int, members: int) -> dict[str, Attribute]:
    if op.kind not in COMM_TYPES:
        raise UsageError(f"{op.name!r}: Chakra knows no {op.kind}")
    size = op.nbytes // members if op.kind in SIZED_BY_RANK else op.nbytes
    return {"comm_type": COMM_TYPES[op.kind], "comm_size": size, "pg_name": str(number)}


def _count(value: float) -> int:
    return round(min(max(0.0, value), _LARGEST))


def _attribute(value: Any) -> Attribute:
    if isinstance(value, Phase):
        return value.name
    if isinstance(value, tuple) and value and isinstance(value[0], Kernel):
        return tuple(kernel_text(one) for one in value)
    attribute: Attribute = value
    return attribute


def _own(op: Op) -> dict[str, Attribute]:
    """The fields of an op, except its name, as attributes of our own."""
    values = {field.name: getattr(op, field.name) for field in fields(op)} | {
        "op": type(op).__name__
    }
    return {
        OWN + name: _attribute(value)
        for name, value in values.items()
        if value is not None and name != "name"
    }
