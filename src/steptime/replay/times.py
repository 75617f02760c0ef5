"""Computing times given by the user: a measured table, or the duration of a step's computing."""

import csv
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

from steptime.errors import UsageError
from steptime.files import bounded_text, reading
from steptime.program import Compute, Op, Program
from steptime.replay.options import ProxyOptions
from steptime.timeline import Phase
from steptime.units import format_seconds, parse_seconds

_COLUMNS = ["name", "seconds"]
_MOST_BYTES = 16 << 20
_NAMED = 3  # of many names in an error


def with_times(program: Program, options: ProxyOptions) -> tuple[Program, str]:
    """The program with the times that the user gave, and their source in words.

    The same program and no words where none were given. Raises UsageError as the functions below
    do.
    """
    if options.times is not None:
        source = str(options.times)
        timed = timed_by_table(program, read_times(options.times), source)
        return timed, f"computing takes the times of {source}, given"
    if options.compute_time is not None:
        seconds = options.compute_s
        return timed_in_all(program, seconds), (
            f"computing takes {format_seconds(seconds)} a step, given, shared out by FLOP; "
            "updates none"
        )
    return program, ""


def read_times(path: Path) -> dict[str, float]:
    """The seconds by name in a CSV file with the columns ``name`` and ``seconds``.

    Seconds are numbers, or have a unit, as 2.1ms. Raises UsageError for a file that cannot be
    read, a line that is not such a pair, and a name that stands there twice.
    """
    text = bounded_text(path, "times", _MOST_BYTES)
    with reading(path, "times"):
        rows = list(enumerate(csv.reader(text.splitlines(), skipinitialspace=True), 1))
    if not rows or rows[0][1] != _COLUMNS:
        raise UsageError(f"the times {path} must begin with the line {','.join(_COLUMNS)}")
    times: dict[str, float] = {}
    for line, row in rows[1:]:
        if not row:
            continue
        if len(row) != len(_COLUMNS) or not row[0] or row[0] in times:
            raise UsageError(f"line {line} of {path} must have a name of its own and its seconds")
        times[row[0]] = _seconds(row[1], f"line {line} of {path}")
    return times


def _seconds(text: str, where: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = parse_seconds(text)
    if not 0 <= seconds < float("inf"):
        raise UsageError(f"{where} says {text}: a time is at least 0 and ends")
    return seconds


def timed_by_table(program: Program, times: Mapping[str, float], source: str) -> Program:
    """The program whose computing takes the times of a table.

    A name is that of an op, or how it begins up to a blank, and * stands for anything: with
    ``forward block 3`` or ``forward *`` each op so called takes that long. The longest matching
    name counts. An op with nothing to compute takes no time where no name matches.

    Raises UsageError where an op has no time, and where a name matches no op.
    """
    used: set[str] = set()
    missing: dict[str, None] = {}

    def seconds(op: Compute) -> float:
        fitting = [name for name in times if _fits(name, op.name)]
        if fitting:
            best = max(fitting, key=lambda name: (name == op.name, len(name)))
            used.update(fitting)
            return times[best]
        if op.seconds or op.flops or op.nbytes:
            missing[op.name] = None
        return 0.0

    found = with_seconds(program, seconds)
    if missing:
        raise UsageError(f"{source} has no time for {_some(missing)} of {program.name}: add them")
    unknown = [name for name in times if name not in used]
    if unknown:
        raise UsageError(
            f"{source} has times for {_some(unknown)}, and nothing in {program.name} computes that "
            f"by name: its first is {_first(program)!r}"
        )
    return found


def timed_in_all(program: Program, seconds: float) -> Program:
    """The program whose forward and backward take ``seconds`` on the rank that has the most FLOP.

    They are divided by FLOP, and updates take no time. Raises UsageError where there are no FLOP.
    """
    most = max(
        sum(op.flops for op in ops if isinstance(op, Compute) and _of_model(op))
        for ops in program.lists
    )
    if not most:
        raise UsageError(
            f"nothing says how {program.name} shares its computing out, which has times of its "
            "own: leave --compute-time out"
        )
    return with_seconds(program, lambda op: op.flops / most * seconds if _of_model(op) else 0.0)


def _of_model(op: Compute) -> bool:
    return op.phase != Phase.UPDATE


def with_seconds(program: Program, seconds: Callable[[Compute], float]) -> Program:
    """The program whose computing has the seconds that the function gives."""

    def timed(op: Op) -> Op:
        return replace(op, seconds=seconds(op)) if isinstance(op, Compute) else op

    return replace(program, lists=tuple(tuple(map(timed, ops)) for ops in program.lists))


def _fits(name: str, op: str) -> bool:
    return op == name or fnmatchcase(op, name) or fnmatchcase(op, f"{name} *")


def _some(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - _NAMED:,} more" if len(every) > _NAMED else ""
    return ", ".join(map(repr, every[:_NAMED])) + more


def _first(program: Program) -> str:
    return next((op.name for ops in program.lists for op in ops if isinstance(op, Compute)), "")
