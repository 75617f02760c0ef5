"""What is wrong with a Program, judged without running it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from steptime.check.finding import Finding, FindingKind
from steptime.cluster.cluster import Device
from steptime.errors import UsageError
from steptime.program import Program, match_calls
from steptime.program.chakra.read import read_chakra
from steptime.program.check import check
from steptime.program.program import Compute
from steptime.program.stored import read_programs
from steptime.simulate.priced import nothing, priced
from steptime.simulate.queues import queues

_NO_DEVICE = Device(name="", flops={}, memory=0.0, memory_bandwidth=np.inf)
_MENDS = {
    FindingKind.MISMATCH: "Let all ranks of a group call the same collectives in one order, with "
    "the same bytes and root.",
    FindingKind.MISSING: "Give every rank of a group the same number of calls, and every send its "
    "recv.",
    FindingKind.DEADLOCK: "Reach these calls in one order on every rank, or put them on streams "
    "of their own.",
}


def programs_in(path: Path) -> list[Program]:
    """The programs of a run's folder, or of one with Chakra traces, a file a rank; none elsewhere.

    Raises UsageError where they cannot be read.
    """
    if any(path.glob("*.et")):
        return [read_chakra(path)]
    return [stored.program for stored in read_programs(path)]


def program_findings(program: Program) -> Iterator[Finding]:
    """The first fault of a program: a contradiction, calls that differ, or a circle of waits."""
    try:
        check(program)
        matching = match_calls(program)
    except UsageError as error:
        missing = re.search(
            r"calls nothing|of the same group, nothing|messages with the tag", str(error)
        )
        kind = FindingKind.MISSING if missing else FindingKind.MISMATCH
        yield _finding(kind, str(error))
        return
    try:
        timeless = _timeless(program)
        queued = queues(timeless, _NO_DEVICE, np.ones(program.ranks))
        priced(timeless, queued, matching, nothing(matching), 1)
    except UsageError as error:
        yield _finding(FindingKind.DEADLOCK, str(error))


def _timeless(program: Program) -> Program:
    """The same order of ops, with computing that takes no time, so that no device is needed."""
    lists = tuple(
        tuple(replace(op, seconds=0.0) if isinstance(op, Compute) else op for op in ops)
        for ops in program.lists
    )
    return replace(program, lists=lists)


def _finding(kind: FindingKind, said: str) -> Finding:
    ranks: Sequence[int] = sorted({int(found) for found in re.findall(r"\brank (\d+)", said)})
    return Finding(
        kind=kind, ranks=ranks, places=(), what=f"{said[:1].upper()}{said[1:]}.", mend=_MENDS[kind]
    )
