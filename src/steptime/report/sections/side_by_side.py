"""Two answers side by side: measured and simulated, or a cluster and what it could be."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from steptime.report.section import Page, Section
from steptime.runs.figures import StepFigures
from steptime.runs.record import RunRecord
from steptime.units import format_seconds

_NOTHING = 0.05  # per cent


@dataclass(frozen=True)
class Quantity:
    """One figure on both sides, in seconds."""

    left: float
    right: float

    @property
    def difference(self) -> str:
        """How much more the right is than the left."""
        if not self.left and self.right:
            return "–"
        change = 100 * (self.right - self.left) / (self.left or 1.0)
        if abs(change) < _NOTHING:
            return "0 %"
        text = f"{change:+.1f}" if abs(change) < 9.95 else f"{change:+.0f}"
        return f"{text.replace('-', '−')} %"


@dataclass(frozen=True)
class SideBySide:
    """Rows of (strategy, the quantities of ``titles``), and what stands left and right."""

    heading: str
    left: str
    right: str
    note: str
    rows: Sequence[tuple[str, Sequence[Quantity]]]


TITLES = ("step", "compute", "exposed comm")


def side_by_side(run: RunRecord) -> SideBySide | None:
    """What stands side by side in a run, if anything does."""
    if run.what_if:
        changes = run.what_if.changes
        return SideBySide(
            heading=f"What if {changes}",
            left="as it is",
            right="what if",
            note=f"Both are simulated on {run.place.cluster}; what if has {changes}.",
            rows=_rows(run.strategies, run.what_if.strategies),
        )
    if run.simulated:
        simulated = run.simulated
        return SideBySide(
            heading=f"Measured here and simulated on {simulated.cluster_title}",
            left="measured",
            right="simulated",
            note=(
                f"Simulated at {simulated.fidelity} fidelity on the cluster "
                f"{simulated.cluster}, with the times of compute and update that were measured "
                "here; what is none of compute, communication and update is not simulated."
            ),
            rows=_rows(run.strategies, simulated.strategies),
        )
    return None


def _rows(
    left: Mapping[str, StepFigures], right: Mapping[str, StepFigures]
) -> list[tuple[str, Sequence[Quantity]]]:
    names = sorted(right, key=lambda name: right[name].step_time_s.median)
    return [
        (
            name,
            [
                Quantity(left[name].step_time_s.median, right[name].step_time_s.median),
                Quantity(left[name].compute_s, right[name].compute_s),
                Quantity(left[name].exposed_comm_s, right[name].exposed_comm_s),
            ],
        )
        for name in names
    ]


def print_side_by_side(console: Console, both: SideBySide) -> None:
    """Print both sides as a table."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)
    table.add_column("strategy", no_wrap=True)
    for title in TITLES:
        if title != "compute":
            table.add_column(f"{title}\n{both.left}", justify="right", no_wrap=True)
            table.add_column(f"\n{both.right}", justify="right", no_wrap=True)
            table.add_column("\ndiffers", justify="right", no_wrap=True)
    for name, (step, _, exposed) in both.rows:
        cells = [
            text
            for one in (step, exposed)
            for text in (format_seconds(one.left), format_seconds(one.right), one.difference)
        ]
        table.add_row(name.replace("overlapped_", "overlapped\n  _"), *cells)
    console.print()
    console.print(Text(f"{both.heading}:"))
    console.print(table)
    console.print(Text(both.note))


def _shown(page: Page) -> Mapping[str, Any] | None:
    both = side_by_side(page.record) if page.single else None
    return {"beside": both, "beside_titles": TITLES} if both else None


SECTION = Section("side_by_side", 50, _shown)
