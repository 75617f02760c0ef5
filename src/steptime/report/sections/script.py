"""What a recorded script called: each kind of call, how long it was waited for, and where."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from steptime.report.section import Page, Section
from steptime.runs.record import RunRecord
from steptime.runs.recorded import RecordedCall, RecordedScript
from steptime.units import format_bytes, format_seconds

_SHOWN = 8
_PLACES, _MOST_PLACES = 2, 5

_NO_CALL = "No group of torch.distributed communicates anything; calls of its rpc are not seen."

Row = tuple[str, str, str, str, str, str]


def call_rows(calls: Sequence[RecordedCall], places: int) -> list[Row]:
    """Of each kind of call: name, group, calls and bytes of a step, the wait for it, places."""
    return [
        (
            call.op,
            f"{call.group} of {call.ranks}",
            f"{call.calls_per_step:.3g}",
            format_bytes(round(call.bytes_per_step)),
            format_seconds(call.exposed_s),
            _listed(call.places[:places]),
        )
        for call in calls
    ]


def _listed(places: Sequence[str]) -> str:
    """Places with commas; a line of the script via several lines of packages is named once."""
    told: list[str] = []
    before = ""
    for place in places:
        line, via, package = place.partition(" via ")
        told.append(package if via and line == before else place)
        before = line if via else ""
    return ", ".join(told)


def origin(script: RecordedScript) -> str:
    """Which traces it was read from, what told its steps, and what they do not tell."""
    untold = "; ".join(script.untold)
    return (
        f"Read from a {script.read_from}; steps by {script.steps_by}."
        f"{f' Not told: {untold}.' if untold else ''}"
    )


def print_script(console: Console, run: RunRecord) -> None:
    """Print the calls of a recorded script, those that are waited for most first."""
    if run.script is None:
        return
    console.print()
    if run.script.read_from:
        console.print(Text(origin(run.script)))
    if not run.script.calls:
        console.print(Text(_NO_CALL))
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    table.add_column("call", no_wrap=True)
    table.add_column("group")
    for title in ("calls\na step", "bytes\na step", "waited\na step"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("where")
    for row in call_rows(run.script.calls[:_SHOWN], _PLACES):
        table.add_row(*row)
    console.print(table)
    if len(run.script.calls) > _SHOWN:
        console.print(Text(f"and {len(run.script.calls) - _SHOWN} more: see the report"))


def _shown(page: Page) -> Mapping[str, Any] | None:
    script = page.record.script if page.single else None
    if script is None:
        return None
    return {
        "script_calls": call_rows(script.calls, _MOST_PLACES),
        "script_command": " ".join(script.command),
        "script_origin": origin(script) if script.read_from else "",
    }


SECTION = Section("script", 25, _shown)
