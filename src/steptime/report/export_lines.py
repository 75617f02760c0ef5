"""What an export says to a person: what was written, the files, and how far clocks are right."""

from collections.abc import Iterator, Mapping
from textwrap import fill
from typing import Any

from steptime.units import format_bytes, format_seconds

_SHOWN = 6
"""So many files are listed one by one."""


def export_lines(record: Mapping[str, Any], columns: int) -> Iterator[str]:
    """The lines of ``record``, the JSON of the verb; no path is cut."""
    if "intervals" in record:
        yield (
            f"{record['to']}: {record['intervals']:,} intervals and {record['messages']:,} "
            f"messages of {record['ranks']:,} ranks, {record['source']}"
        )
    for program in record.get("programs", ()):
        yield _folded(f"{record['to']}: {_program_line(program)}", columns)
    if lacking := record.get("not_in_astra_sim"):
        kinds = " or ".join(lacking)
        yield _folded(
            f"ASTRA-sim carries out no {kinds}: it stops, or takes no time for it", columns
        )
    files = record["files"]
    for file in files[:_SHOWN]:
        yield f"  {file['path']}  {format_bytes(file['bytes'])}"
    if len(files) > _SHOWN:
        rest = format_bytes(sum(file["bytes"] for file in files[_SHOWN:]))
        yield f"  and {len(files) - _SHOWN:,} more of {rest}"
    yield from (_folded(line, columns) for line in _clock_lines(record))


def _folded(text: str, columns: int) -> str:
    return fill(
        text, columns, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _program_line(program: Any) -> str:
    if isinstance(program, str):
        return program
    by = ", ".join(f"{kind} by {name}" for kind, name in program["algorithms"].items())
    return f"{program['name']}, {program['messages']:,} messages{': ' * bool(by)}{by}"


def _clock_lines(record: Mapping[str, Any]) -> Iterator[str]:
    """How far the clocks of several hosts can be trusted."""
    clocks = record.get("clock", [])
    if len(clocks) > 1:
        error = format_seconds(max(clock["error_s"] for clock in clocks))
        yield f"clocks of {len(clocks)} hosts put on rank 0's, each at most {error} wrong, measured"
    elif clocks:
        yield "clocks: one host and one clock"
    if record.get("early_messages"):
        yield (
            f"{record['early_messages']:,} messages arrive before they were sent, by more than "
            "the clocks may be wrong: do not trust times between hosts"
        )
