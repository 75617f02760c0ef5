"""Reading a folder of Chakra traces as a Program: steptime's own exactly, and other tools'."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import numpy as np

from steptime.errors import UsageError
from steptime.files import bounded_bytes, reading
from steptime.program.chakra.foreign import foreign_program
from steptime.program.chakra.node import Attributes, Node, read_metadata, read_node
from steptime.program.chakra.protobuf import read_sized
from steptime.program.chakra.write import OWN
from steptime.program.check import check
from steptime.program.kernel import kernel_of
from steptime.program.program import Collective, Compute, Op, Program, Recv, Send, Wait
from steptime.timeline import Phase

_MOST_BYTES = 1 << 32  # of a rank
_OPS = {kind.__name__: kind for kind in (Compute, Collective, Send, Recv, Wait)}


def read_chakra(folder: Path) -> Program:
    """The program of the traces in a folder, ``NAME.RANK.et`` for each rank.

    In other tools' traces a node waits for its data dependencies, and for its control dependencies
    where they go the same way. Compute, collectives, sends, the receives from each sender and what
    runs on the host become one stream each, in the order of their numbers where dependencies allow
    it. Groups are read from the folder's only JSON file, which maps a number to a list of
    ranks; a collective that names no group is among all ranks.

    Raises UsageError for a folder without traces, or with some that are cut off, no traces, or
    contradict each other.
    """
    with reading(folder, "Chakra traces in"):
        traces = [_Trace.of(path) for path in _paths(folder)]
        program = (
            _own_program(traces)
            if all(f"{OWN}program" in trace.metadata for trace in traces)
            else foreign_program(folder, [trace.nodes() for trace in traces])
        )
        check(program)
    return program


def _paths(folder: Path) -> list[Path]:
    """The file of each rank in order."""
    names = [re.fullmatch(r"(.*)\.(\d+)\.et", path.name) for path in folder.glob("*.et")]
    found = {int(name[2]): folder / name[0] for name in names if name}
    if not found:
        raise UsageError(f"{folder} has no Chakra traces: it needs NAME.0.et, NAME.1.et and so on")
    if len({name[1] for name in names if name}) > 1:
        raise UsageError(f"{folder} has traces of several names: keep those of one step in it")
    missing = next((rank for rank in range(len(found)) if rank not in found), None)
    if missing is not None:
        raise UsageError(f"{folder} lacks the trace of rank {missing} of {max(found) + 1}")
    return [found[rank] for rank in range(len(found))]


@dataclass(frozen=True)
class _Trace:
    """One file: its metadata, and its still encoded records."""

    path: Path
    content: bytes
    metadata: Attributes
    begin: int

    @staticmethod
    def of(path: Path) -> "_Trace":
        content = bounded_bytes(path, "Chakra trace", _MOST_BYTES)
        try:
            record, begin = read_sized(content, 0)
            return _Trace(path, content, read_metadata(record), begin)
        except UsageError as error:
            raise UsageError(f"{path} is no Chakra trace: {error}") from None

    def nodes(self) -> list[Node]:
        """Its nodes in their order."""
        return list(self._nodes())

    def _nodes(self) -> Iterator[Node]:
        at, number = self.begin, 1
        while at < len(self.content):
            try:
                record, behind = read_sized(self.content, at)
                yield read_node(record)
            except UsageError as error:
                raise UsageError(
                    f"{self.path} is damaged in record {number}, at byte {at}: {error}"
                ) from None
            at, number = behind, number + 1


def _own_program(traces: list[_Trace]) -> Program:
    """Read what write_chakra wrote; each class of ranks only once."""
    headers = [_header(trace) for trace in traces]
    name, axes, sizes, _ = headers[0]
    for trace, one in zip(traces, headers, strict=True):
        if one[:3] != headers[0][:3]:
            raise UsageError(f"{trace.path} is of another program than {traces[0].path}")
    numbers = [number for _, _, _, number in headers]
    of_class = dict(zip(numbers, traces, strict=True))
    kept = {number: position for position, number in enumerate(sorted(of_class))}
    return Program(
        name=name,
        axes=dict(zip(axes, sizes, strict=True)),
        lists=tuple(tuple(_ops(of_class[number])) for number in kept),
        class_of=np.array([kept[number] for number in numbers], np.int32),
    )


def _header(trace: _Trace) -> tuple[str, tuple[str, ...], tuple[int, ...], int]:
    """The program's name, its axes and their sizes, and the class of the rank."""
    name, axes, sizes, number = (
        trace.metadata.get(OWN + what) for what in ("program", "axes", "sizes", "class")
    )
    if (
        isinstance(name, str)
        and isinstance(axes, tuple)
        and isinstance(sizes, tuple)
        and isinstance(number, int)
        and len(axes) == len(sizes)
    ):
        return name, axes, sizes, number
    raise UsageError(f"{trace.path} does not say of which ranks its program is")


def _ops(trace: _Trace) -> Iterator[Op]:
    for node in trace.nodes():
        own: dict[str, Any] = {
            name.removeprefix(OWN): value
            for name, value in node.attributes.items()
            if name.startswith(OWN)
        }
        try:
            kind = _OPS[own.pop("op")]
            if "phase" in own:
                own["phase"] = Phase[own["phase"]]
            if "kernels" in own:
                own["kernels"] = tuple(map(kernel_of, own["kernels"]))
            hints = get_type_hints(kind)
            if not all(_fits(value, hints[name]) for name, value in own.items()):
                raise TypeError
            yield kind(name=node.name, **own)
        except (KeyError, TypeError, AttributeError, UsageError):
            raise UsageError(
                f"{trace.path}: the node {node.name!r} is no op of this version of steptime"
            ) from None


def _fits(value: Any, hint: Any) -> bool:
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(_fits(one, get_args(hint)[0]) for one in value)
    return isinstance(value, int | float if hint in (float, float | None) else hint)
