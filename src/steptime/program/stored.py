"""The programs of a run, stored in its folder in one small file, whatever the number of ranks.

JSON, compressed: the ops of each class of ranks once, and of an op the fields that differ from its
type's defaults. A Chakra trace, one file a rank, is made from it on request.
"""

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import groupby
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np

from steptime.files import bounded_bytes, checked, parsed_json, reading, write_atomic
from steptime.limits import MOST_RANKS, check_within
from steptime.program.check import check
from steptime.program.program import Collective, Compute, Op, Program, Recv, Send, Wait
from steptime.timeline import Phase

PROGRAMS = "program.json.gz"
"""The name of the file in a run's folder."""

FORMAT = "steptime-programs"
VERSION = 1
MOST_OPS = 2_000_000
"""Programs with more ops are not stored: writing them would take longer than the run."""

_MOST_BYTES = 1 << 30  # unpacked
_KINDS: Mapping[str, type[Op]] = {
    kind.__name__: kind for kind in (Compute, Collective, Send, Recv, Wait)
}
_DEFAULTS = {name: {one.name: one.default for one in fields(kind)} for name, kind in _KINDS.items()}
"""Of the fields of each kind of op; MISSING, which no value equals, where there is none."""


@dataclass(frozen=True, eq=False, kw_only=True)
class StoredProgram:
    """A program that ran, live or simulated, with what exports to other tools need.

    ``algorithms``: the algorithm of each kind of collective, where known. ``seconds``: how long
    each op was to compute on the run's devices, list by list as in the program; 0 for any op but
    Compute. ``reduce_s_per_byte``: what the run charged for adding up what had arrived.
    """

    program: Program
    seconds: tuple[tuple[float, ...], ...]
    algorithms: Mapping[str, str] = field(default_factory=dict)
    reduce_s_per_byte: float = 0.0


def write_programs(folder: Path, programs: Sequence[StoredProgram]) -> None:
    """Keep the programs of a run in its folder, unless they have more than MOST_OPS ops.

    Raises OSError where the file cannot be written.
    """
    ops = sum(len(of_class) for one in programs for of_class in one.program.lists)
    if not programs or ops > MOST_OPS:
        return
    content = {
        "format": FORMAT,
        "version": VERSION,
        "programs": [_program_record(one) for one in programs],
    }
    import msgspec  # which encodes kernels as they are, in a tenth of the time of json and asdict

    text = msgspec.json.encode(content, enc_hook=float)  # of numbers of NumPy
    write_atomic(folder / PROGRAMS, gzip.compress(text, compresslevel=6, mtime=0))


def read_programs(folder: Path) -> list[StoredProgram]:
    """The programs that a run's folder keeps, none where it keeps none.

    Raises UsageError where the file is truncated, not steptime's, or newer than this code.
    """
    path = folder / PROGRAMS
    if not path.exists():
        return []
    content = bounded_bytes(path, "programs", _MOST_BYTES)
    with reading(path, "programs", "run steptime again"):
        document: dict[str, Any] = parsed_json(content, dict)
        if document["format"] != FORMAT:
            raise ValueError("another program wrote it")
        if document["version"] > VERSION:
            raise ValueError(
                f"it has version {document['version']} and this steptime reads {VERSION}"
            )
        found = [_stored(record) for record in checked(document["programs"], list[_Record])]
        for one in found:
            check(one.program)
    return found


def _program_record(one: StoredProgram) -> dict[str, Any]:
    program = one.program
    return {
        "name": program.name,
        "axes": list(program.axes.items()),
        "classes": [[kind, len(list(run))] for kind, run in groupby(program.class_of.tolist())],
        "lists": [[_op_record(op) for op in ops] for ops in program.lists],
        "seconds": [list(of_class) for of_class in one.seconds],
        "algorithms": dict(one.algorithms),
        "reduce_s_per_byte": one.reduce_s_per_byte,
        "on_cores": program.on_cores,
    }


def _op_record(op: Op) -> dict[str, Any]:
    kind = type(op).__name__
    values = {
        name: value
        for name, default in _DEFAULTS[kind].items()
        if (value := getattr(op, name)) != default
    }
    if isinstance(op, Compute) and "phase" in values:
        values["phase"] = op.phase.name
    return {"op": kind, **values}


class _Record(TypedDict):
    """What the file holds of a program; ``classes``: how many ranks in a row are of which."""

    name: str
    axes: list[tuple[str, int]]
    classes: list[tuple[int, int]]
    lists: list[list[dict[str, Any]]]
    seconds: list[list[float]]
    algorithms: dict[str, str]
    reduce_s_per_byte: NotRequired[float]
    on_cores: NotRequired[bool]


def _stored(record: _Record) -> StoredProgram:
    counts = np.array([count for _, count in record["classes"]], np.int64)
    check_within("the number of ranks", int(counts.sum()), 1, MOST_RANKS)
    kinds = np.array([kind for kind, _ in record["classes"]], np.int32)
    program = Program(
        name=record["name"],
        axes=dict(record["axes"]),
        lists=tuple(tuple(_op(one) for one in ops) for ops in record["lists"]),
        class_of=np.repeat(kinds, counts),
        on_cores=record.get("on_cores", False),
    )
    if [len(ops) for ops in program.lists] != [len(of_class) for of_class in record["seconds"]]:
        raise ValueError("it has not one duration for each op")
    return StoredProgram(
        program=program,
        seconds=tuple(map(tuple, record["seconds"])),
        algorithms=record["algorithms"],
        reduce_s_per_byte=record.get("reduce_s_per_byte", 0.0),
    )


def _op(record: Mapping[str, Any]) -> Op:
    values = {name: value for name, value in record.items() if name != "op"}
    if "phase" in values:
        values["phase"] = Phase[values["phase"]]
    return checked(values, _KINDS[record["op"]])
