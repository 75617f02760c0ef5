"""A scaling study in a terminal: its cells, POP's factors, and what bounds each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from steptime.report.about import standing_on
from steptime.report.utilisation import UNKNOWN, formula_sentence, rates_sentence, share
from steptime.runs.memory import misfit
from steptime.runs.scale import ScaleCell, ScaleRecord
from steptime.units import format_seconds, seconds_in, three_digits

Entry: TypeAlias = ScaleCell

_WIDE = 180  # columns in which all figures of a cell stand side by side
_ROOMY = 110  # columns in which all rates of a device have room beside times


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
    """What bounds a cell, and before that whether it could run at all."""
    unfit = f"DOES NOT FIT: {misfit(cell.model_memory)} If it did: " if cell.fits is False else ""
    return f"{unfit}{cell.bound.sentence}"


def misfit_sentence(run: ScaleRecord) -> str:
    """Which cells do not fit, and whether the baseline is one of them; empty where all fit."""
    unfit = [cell for cell in run.cells if cell.fits is False]
    if not unfit:
        return ""
    names = ", ".join(f"{cell_name(cell)} {way(cell)}" for cell in unfit)
    against = "; speedups are told against a baseline that cannot run" * (run.base.fits is False)
    return f"{names}{against}."


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
    unfit = " and does not fit" if run.base.fits is False else ""
    return (
        f"The baseline is {base.name.replace('x', '×')} {way(run.base)}, "
        f"{format_seconds(base.step_time_s)} a step{unfit}; {same}."
    )


def source_sentence(run: ScaleRecord) -> str:
    """How the figures came about."""
    if run.cluster:
        return (
            f"Every figure is simulated on {run.cluster} ({run.work.precision})"
            f"{standing_on(run.base.compute_speed)}; the ideal network has no latency and infinite "
            "bandwidth."
        )
    if run.in_turns:
        turns = "The points took turns; ± is half the 95 % interval, of all cells together. "
    else:
        turns = "The points ran one after the other, so a machine that changed is in the speedups. "
    return (
        f"Times are measured: means of {run.steps} steps after {run.warmup} of warm-up, on "
        f"{run.cores} cores ({run.backend}, {run.work.precision}). {turns}The ideal network of "
        "SerE and TE is simulated with the work that each rank was measured to do in each step."
    )


def used_sentences(run: ScaleRecord) -> Iterator[str]:
    """What the baseline uses of its devices, how that is computed, and how sure all cells are."""
    base = run.base
    if base.utilisation is None:
        return
    yield rates_sentence(base.utilisation, "the baseline")
    if base.utilisation.mfu is not None:
        yield formula_sentence(base.utilisation)
    if base.source != "simulated":
        return
    known = [cell for cell in run.cells if cell.expected]
    if not known:
        yield UNKNOWN
        return
    errors = [f"{cell_name(cell)} {way(cell)} {_whole(cell)}" for cell in known]
    yield (
        f"Expected errors, by measured steps near them: {', '.join(errors)}"
        f"{'; of the others nobody knows' * (len(known) < len(run.cells))}."
    )


def _whole(cell: Entry) -> str:
    return f"{100 * cell.expected.error:.0f} %" if cell.expected else ""


def speedup(cell: Entry) -> str:
    """``1.87×``, or with half its interval where that is known: ``1.87 ± 0.05×``."""
    low, high = cell.speedup_ci95 or (0.0, 0.0)
    return f"{three_digits(cell.speedup)}{f' ± {three_digits((high - low) / 2)}' * (high > low)}×"


def print_scale(console: Console, run: ScaleRecord) -> None:
    """Print what ``run`` found."""
    cells: Sequence[Entry] = run.cells
    console.print()
    if run.cluster:
        title = f"Simulated on {run.cluster}, {run.cluster_title}"
        console.print(Text(title + standing_on(run.base.compute_speed)))
    if unfit := misfit_sentence(run):
        console.print(Text(f"DOES NOT FIT: {unfit}", style="bold red"))
    wide = console.width >= _WIDE
    times = _time_columns(cells, roomy=console.width >= _ROOMY)
    factors = _factor_columns()
    if wide:
        console.print(_table(run, [*times, *factors], wide=True))
    else:
        console.print(_table(run, times, wide=False))
        console.print()
        console.print(_table(run, factors, wide=False))
    told = (baseline_sentence(run), source_sentence(run), *used_sentences(run), _legend(cells))
    for sentence in told:
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
    unfit = any(cell.fits is False for cell in cells)
    return text + " * more threads than there are cores." * starred + " ! does not fit." * unfit


@dataclass(frozen=True)
class _Column:
    """A heading and what stands below it; None where a cell has nothing of the kind."""

    title: str
    text: Callable[[Entry], str | None]


def _time_columns(cells: Sequence[Entry], *, roomy: bool) -> list[_Column]:
    longest = max(cell.step_time_spread_s.p90 for cell in cells)
    unit, second = ("s", 1.0) if longest >= 10 else ("ms", 1e-3)

    def spread(cell: Entry) -> str | None:
        times = cell.step_time_spread_s
        if cell.source == "simulated":
            return None
        return f"{seconds_in(times.p10, second)}–{seconds_in(times.p90, second)}"

    def median(cell: Entry) -> str | None:
        measured = cell.source == "measured"
        return seconds_in(cell.step_time_spread_s.median, second) if measured else None

    def tokens(cell: Entry) -> str | None:
        return f"{cell.tokens_per_s:,.0f}" if cell.tokens_per_s else None

    def each(cell: Entry) -> str | None:
        used = cell.utilisation
        return f"{used.tokens_per_s_per_device:,.0f}" if used and roomy else None

    def tflops(cell: Entry) -> str | None:
        used = cell.utilisation
        return f"{used.tflops_per_device:.3g}" if used and roomy else None

    def hfu(cell: Entry) -> str | None:
        return share(cell.utilisation.hfu) if cell.utilisation else None

    columns = [
        _Column(f"step\nmean {unit}", lambda cell: seconds_in(cell.step_time_s, second)),
        _Column(f"median\n{unit}", median),
        _Column(f"p10–p90\n{unit}", spread),
        _Column("tokens\n/s", tokens),
        _Column("tokens/s\na device", each),
        _Column("TFLOP/s\na device", tflops),
        _Column("MFU\n%", lambda cell: share(cell.utilisation.mfu) if cell.utilisation else None),
        *([_Column("HFU\n%", hfu)] if roomy else []),
        _Column("speed-\nup", speedup),
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
        name, unfit = way(cell), cell.fits is False
        table.add_row(
            f"{cell_name(cell)}{'!' * unfit}",
            name if wide else name.replace("overlapped_", "overlapped\n  _"),
            *(column.text(cell) or "–" for column in columns),
            style="bold red" if unfit else "bold" if run.baseline.holds(cell) else None,
        )
    return table


def _percent(part: float) -> str:
    """Whole percent, with a decimal near 100 where it makes the difference."""
    return f"{100 * part:.1f}"
