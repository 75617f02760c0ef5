"""Published figures of the run that a preset rebuilds, beside the simulated ones."""

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from steptime.report.section import Page, Section
from steptime.report.sections.side_by_side import Quantity
from steptime.runs.record import RunRecord
from steptime.units import format_seconds

Row = tuple[str, str, str, str, str]


def published_rows(run: RunRecord) -> list[Row]:
    """What, its published and simulated time, how far these differ, and why they agree at all."""
    return [
        (
            row.label,
            format_seconds(row.published_s),
            format_seconds(row.simulated_s),
            Quantity(row.published_s, row.simulated_s).difference,
            row.how,
        )
        for row in (run.published.rows if run.published else ())
    ]


def print_published(console: Console, run: RunRecord) -> None:
    """Print the published figures of a run, if it has any."""
    rows = published_rows(run)
    if not run.published:
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1))
    table.add_column("")
    for title in ("published", "simulated", "differs"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("the simulated is")
    for row in rows:
        table.add_row(*row)
    console.print()
    console.print(table)
    console.print(Text(f"Published: {run.published.source}"))


def _shown(page: Page) -> Mapping[str, Any] | None:
    rows = published_rows(page.record) if page.single else []
    return {"published": rows} if rows else None


SECTION = Section("published", 40, _shown)
