"""The findings of a check as text: a paragraph each."""

import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from rich.console import Console
from rich.text import Text

_SIGNALLED = 128  # what shells and launchers add to the number of the signal that ended a process


def print_findings(
    console: Console, findings: Sequence[Mapping[str, Any]], exit_code: int | None
) -> None:
    """Print what was found, as JSON has it; a sentence where nothing was.

    ``exit_code``: that with which the script left, None where none was run.
    """
    if not findings:
        console.print(f"Nothing was found.{_left(exit_code) if exit_code else ''}")
    for number, finding in enumerate(findings):
        if number:
            console.print()
        _print(console, finding)


def print_remarks(console: Console, remarks: Sequence[Mapping[str, Any]]) -> None:
    """Print what was seen besides, as JSON has it; nothing where there is none."""
    if remarks:
        console.print("\nSeen besides, which may be meant:")
    for remark in remarks:
        console.print()
        _print(console, remark)


def _print(console: Console, finding: Mapping[str, Any]) -> None:
    head = Text(str(finding["kind"]).upper(), style="bold")
    ranks = ", ".join(map(str, finding["ranks"]))
    head.append(f"  rank{'s' * (len(finding['ranks']) != 1)} {ranks}", style="not bold")
    if finding.get("since_s") is not None:
        head.append(f", for {finding['since_s']:.1f} s", style="not bold")
    if finding.get("gain") is not None:
        head.append(f", {finding['gain']:.0%} of the step", style="not bold")
    console.print(head)
    console.print(Text(finding["what"]))
    for place in finding["places"]:
        rank = f"  rank {place['rank']}: "
        console.print(Text(f"{rank}{place['file']}:{place['line']}"), soft_wrap=True)
        if via := place.get("via"):
            console.print(Text(f"{'via ':>{len(rank)}}{via}"), soft_wrap=True)
    console.print(Text(f"Mend: {finding['mend']}"))


def _left(exit_code: int) -> str:
    """How a script ended that nothing was found of: by itself or, as launchers say it, a signal."""
    with suppress(ValueError):
        name = signal.Signals(exit_code - _SIGNALLED).name
        return f" The script was ended by {name}, exit code {exit_code}."
    return f" The script left with {exit_code} by itself."
