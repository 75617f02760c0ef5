"""A scaling study in a terminal: its cells, POP's factors, and what bounds each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from steptime.runs.scale import ScaleCell, ScaleRecord
from steptime.units import format_bytes, format_seconds

Entry: TypeAlias = ScaleCell

_WIDE = 150  # columns in which all figures of a cell stand side by side


@dataclass(frozen=True)
class Factor:
    """One of POP's factors: its field in a cell, its name and short name, and its depth.

    The factors of depth n + 1 below one of depth n multiply to it.
    """

    field: str
    name: str
    short: str
    depth: int


FACTORS = (
    Factor("global_efficiency", "global efficiency", "GE", 0),
    Factor("parallel_efficiency", "parallel efficiency", "PE", 1),
    Factor("load_balance", "load balance", "LB", 2),
    Factor("communication_efficiency", "communication efficiency", "CommE", 2),
    Factor("serialisation_efficiency", "serialisation", "SerE", 3),
    Factor("transfer_efficiency", "transfer", "TE", 3),
    Factor("computation_scalability", "computation scalability", "CompS", 1),
)


def cell_name(cell: Entry) -> str:
    """``4×2`` ranks and threads, with a star where these are more than the cores."""
    return f"{cell.ranks:,}×{cell.threads}{'*' * cell.oversubscribed}"


def way(cell: Entry) -> str:
    """How a cell runs: its strategy or, where one rank has none, sequential or fork-join."""
    return cell.strategy if cell.ranks > 1 else cell.execution


def bound_sentence(cell: Entry) -> str:
    """What bounds a cell, and whether it could run at all."""
    memory = cell.model_memory
    if memory is None or memory.fits is not False:
        return cell.bound.sentence
    kept, there = format_bytes(memory.total), format_bytes(memory.device_bytes or 0)
    return (
        f"{cell.bound.sentence}; WARNING: a rank keeps {kept} of the model, and the device "
        f"has {there}"
    )


def baseline_sentence(run: ScaleRecord) -> str:
    """What the cells are held against, and what stays the same."""
    base = run.baseline
    batch = run.work.batch
    if batch is None:
        same = "as many rows on each replica, weak scaling"
    elif run.scaling == "weak":
        same = f"the same batch of {batch:,} on each rank, weak scaling"
    else:
        same = f"the same global batch of {batch:,}, strong scaling"
    return (
        f"The baseline is {base.name.replace('x', '×')} {way(run.base)}, "
        f"{format_seconds(base.step_time_s)} a step; {same}."
    )


def source_sentence(run: ScaleRecord) -> str:
    """How the figures came about."""
    if run.cluster:
        return (
            f"Every figure is simulated on {run.cluster} ({run.work.precision}); the ideal "
            "network has no latency and infinite bandwidth."
        )
    return (
        f"Times are measured: means of {run.steps} steps after {run.warmup} of warm-up, on "
        f"{run.cores} cores ({run.backend}, {run.work.precision}). The ideal network of SerE "
        "and TE is simulated with the work that each rank was measured to do in each step."
    )


def print_scale(console: Console, run: ScaleRecord) -> None:
    """Print what ``run`` found."""
    cells: Sequence[Entry] = run.cells
    console.print()
    if run.cluster:
        console.print(Text(f"Simulated on {run.cluster}, {run.cluster_title}"))
    times, factors = _time_columns(cells), _factor_columns()
    if console.width >= _WIDE:
        console.print(_table(run, [*times, *factors], wide=True))
    else:
        console.print(_table(run, times, wide=False))
        console.print()
        console.print(_table(run, factors, wide=False))
    for sentence in (baseline_sentence(run), source_sentence(run), _legend(cells)):
        console.print(Text(sentence))
    console.print()
    for cell in cells:
        console.print(Text(f"{cell_name(cell)} {way(cell)}: {bound_sentence(cell)}."))


def _legend(cells: Sequence[Entry]) -> str:
    text = (
        "GE global efficiency = PE × CompS; PE parallel efficiency = LB × CommE; CommE "
        "communication efficiency = SerE × TE; LB load balance, SerE serialisation, TE transfer, "
        "CompS computation scalability. In percent; nothing is clipped."
    )
    starred = any(cell.oversubscribed for cell in cells)
    return text + " * more threads than there are cores." * starred


@dataclass(frozen=True)
class _Column:
    """A heading and what stands below it; None where a cell has nothing of the kind."""

    title: str
    text: Callable[[Entry], str | None]


def _time_columns(cells: Sequence[Entry]) -> list[_Column]:
    longest = max(cell.step_time_spread_s.p90 for cell in cells)
    unit, second = ("s", 1.0) if longest >= 10 else ("ms", 1e-3)

    def spread(cell: Entry) -> str | None:
        times = cell.step_time_spread_s
        if cell.source == "simulated":
            return None
        return f"{digits(times.p10 / second)}–{digits(times.p90 / second)}"

    def median(cell: Entry) -> str | None:
        measured = cell.source == "measured"
        return digits(cell.step_time_spread_s.median / second) if measured else None

    def tokens(cell: Entry) -> str | None:
        return f"{cell.tokens_per_s:,.0f}" if cell.tokens_per_s else None

    columns = [
        _Column(f"step\nmean {unit}", lambda cell: digits(cell.step_time_s / second)),
        _Column(f"median\n{unit}", median),
        _Column(f"p10–p90\n{unit}", spread),
        _Column("tokens\n/s", tokens),
        _Column("speed-\nup", lambda cell: f"{digits(cell.speedup)}×"),
        _Column("effi-\nciency", lambda cell: _percent(cell.efficiency)),
    ]
    return [column for column in columns if any(column.text(cell) for cell in cells)]


def _factor_columns() -> list[_Column]:
    def column(factor: Factor) -> _Column:
        return _Column(factor.short, lambda cell: _percent(getattr(cell, factor.field)))

    return [column(factor) for factor in FACTORS]


def _table(run: ScaleRecord, columns: Sequence[_Column], *, wide: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, int(wide)))
    table.add_column("ranks×\nthreads", no_wrap=True)
    table.add_column("strategy", no_wrap=True)
    for column in columns:
        table.add_column(column.title, justify="right", no_wrap=True)
    for cell in run.cells:
        name = way(cell)
        table.add_row(
            cell_name(cell),
            name if wide else name.replace("overlapped_", "overlapped\n  _"),
            *(column.text(cell) or "–" for column in columns),
            style="bold" if run.baseline.holds(cell) else None,
        )
    return table


def _percent(part: float) -> str:
    """Whole percent, with a decimal near 100 where it makes the difference."""
    return f"{100 * part:.1f}"


def digits(value: float) -> str:
    """Three significant digits, as many as the spread of a measurement can bear."""
    decimals = 0 if abs(value) >= 99.95 else 1 if abs(value) >= 9.995 else 2
    return f"{value:,.{decimals}f}"
