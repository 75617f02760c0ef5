"""Flows as a person in a terminal wants them: when each is done, and which is the last."""

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from steptime.units import format_bytes, format_seconds

MAX_ROWS = 32


def print_flows(console: Console, run: Mapping[str, Any]) -> None:
    """Print when each of a run's flows is done; of many the first."""
    flows = run["flows"]
    changed = run["what_if"]["flows"] if "what_if" in run else None
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    titles = ["src", "dst", "bytes", "start", "finish", "took", "rate"]
    for title in titles + (["what if"] if changed else []):
        table.add_column(title, justify="right", no_wrap=True)
    for place, flow in enumerate(flows[:MAX_ROWS]):
        took = flow["finish_s"] - flow["start_s"]
        table.add_row(
            str(flow["src"]),
            str(flow["dst"]),
            format_bytes(flow["bytes"]),
            format_seconds(flow["start_s"]),
            format_seconds(flow["finish_s"]),
            format_seconds(took),
            f"{format_bytes(flow['bytes'] / took)}/s" if took else "–",
            *([format_seconds(changed[place]["finish_s"])] if changed else []),
        )
    console.print()
    console.print(Text(f"Simulated on {run['cluster']}, {run['cluster_title']}"))
    console.print(table)
    if len(flows) > MAX_ROWS:
        console.print(Text(f"The first {MAX_ROWS} of {len(flows):,} flows; run.json has them all."))
    console.print(Text(_last(flows)))
    if changed:
        console.print(Text(f"With {run['what_if']['changes']}: {_last(changed, 'the last')}"))


def _last(flows: list[Mapping[str, Any]], subject: str = "The last") -> str:
    last = max(flows, key=lambda flow: flow["finish_s"])
    return (
        f"{subject} to finish is from {last['src']} to {last['dst']}, at "
        f"{format_seconds(last['finish_s'])} (simulated)."
    )
