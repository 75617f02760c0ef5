"""The table of strategies: one row a strategy, the best value of each column marked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from steptime.report.about import byte_sources, sources
from steptime.report.alike import alike
from steptime.report.palette import parts_of
from steptime.report.section import Page, Section
from steptime.runs.figures import Parts, StepFigures
from steptime.units import format_bytes, format_seconds

Entry: TypeAlias = StepFigures


@dataclass(frozen=True)
class Cell:
    """What one cell shows; ``note`` is the smaller text below."""

    text: str
    note: str = ""
    best: bool = False


@dataclass(frozen=True)
class Column:
    """One column: how it is read from a strategy, written, and judged."""

    title: str
    source: str
    value: Callable[[Entry], float | None]
    write: Callable[[float], str]
    best: Literal["least", "most"] | None = None
    note: Callable[[Entry], str] = lambda _: ""


@dataclass(frozen=True)
class Table:
    """The columns under their groups, and the rows as (strategy, cells)."""

    groups: Sequence[tuple[str, int]]  # title and number of columns
    columns: Sequence[Column]
    rows: Sequence[tuple[str, Sequence[Cell]]]


def share(entry: Parts, field: str) -> float:
    """Fraction of the step, between 0 and 1, that the part called ``field`` takes."""
    whole = entry.compute_s + entry.exposed_comm_s + entry.update_s + entry.other_s
    return float((getattr(entry, field) or 0.0) / whole) if whole else 0.0


def percent(fraction: float) -> str:
    """A fraction as whole percent, kept on one line; what is not nothing is never 0 %."""
    return "<\u00a01\u00a0%" if 0 < fraction < 0.005 else f"{100 * fraction:.0f}\u00a0%"


def strategy_table(strategies: Mapping[str, Entry], *, level: bool = False) -> Table:
    """The table of ``strategies`` as a record has them; one alone is compared with nothing.

    ``level``: nobody can tell which is the fastest, so nothing measured is marked as the best.
    """
    entries = list(strategies.values())
    groups = _groups(entries)
    columns = [column for _, members in groups for column in members]
    marks = [
        None if level and "measured" in column.source else _best(column, entries)
        for column in columns
    ]
    rows = [
        (name, [_cell(c, entry, best) for c, best in zip(columns, marks, strict=True)])
        for name, entry in strategies.items()
    ]
    return Table([(title, len(members)) for title, members in groups], columns, rows)


def _groups(entries: Sequence[Entry]) -> list[tuple[str, list[Column]]]:
    """The columns under their titles, without those that no strategy has a value for."""
    source, of_bytes = sources(entries), byte_sources(entries)
    groups = [
        ("Time of a step", _time_columns(entries, source)),
        ("Bytes of a step", _byte_columns(of_bytes)),
        ("Speed", _speed_columns(source, compared=len(entries) > 1)),
    ]
    had = [
        (title, [c for c in columns if any(c.value(entry) is not None for entry in entries)])
        for title, columns in groups
    ]
    return [(title, columns) for title, columns in had if columns]


def _time_columns(entries: Sequence[Entry], source: str) -> list[Column]:
    median = Column(
        "median", source, lambda entry: entry.step_time_s.median, format_seconds, "least"
    )
    spread = Column(
        "p10–p90",
        source,
        _p10,
        format_seconds,
        note=lambda entry: f"– {format_seconds(entry.step_time_s.p90)}",
    )
    parts = [_part_column(part.field, part.label, source) for part in parts_of(entries)]
    return [median, spread, *parts]


def _p10(entry: Entry) -> float | None:
    """A simulated step has no spread."""
    return entry.step_time_s.p10 if entry.source == "measured" else None


def _part_column(field: str, title: str, source: str) -> Column:
    return Column(
        title,
        source,
        lambda entry: getattr(entry, field),
        format_seconds,
        None if field == "other_s" else "least",
        lambda entry: percent(share(entry, field)),
    )


def _byte_columns(source: str) -> list[Column]:
    return [
        Column(
            "sent per rank",
            source,
            lambda entry: max(entry.bytes_sent_per_rank),
            format_bytes,
            "least",
            _least_sent,
        ),
        Column(
            "most into one rank",
            source,
            lambda entry: max(entry.bytes_received_per_rank),
            format_bytes,
            "least",
        ),
        Column("on the wire", "measured", _most_on_wire, format_bytes, "least"),
    ]


def _least_sent(entry: Entry) -> str:
    sent = entry.bytes_sent_per_rank
    return "" if min(sent) == max(sent) else f"least {format_bytes(min(sent))}"


def _most_on_wire(entry: Entry) -> float | None:
    return max(entry.wire_bytes_received_per_rank or (), default=None)


def _speed_columns(source: str, *, compared: bool) -> list[Column]:
    tokens = Column(
        "tokens/s",
        source,
        lambda entry: entry.tokens_per_s,
        lambda value: f"{value:,.0f}",
        "most",
    )
    against = Column(
        "against server",
        source,
        lambda entry: entry.speed_against_server,
        lambda value: f"{value:.2f}×",
        "most",
    )
    used = [
        Column(title, "computed", _of_used(field), write, best)
        for title, field, write, best in _USED
    ]
    return [tokens, *used, against] if compared else [tokens, *used]


def _of_used(field: str) -> Callable[[Entry], float | None]:
    return lambda entry: getattr(entry.utilisation, field) if entry.utilisation else None


def _percent(part: float) -> str:
    return f"{100 * part:.1f}\u00a0%"


_USED: tuple[tuple[str, str, Callable[[float], str], Literal["most"]], ...] = (
    ("tokens/s a device", "tokens_per_s_per_device", lambda rate: f"{rate:,.0f}", "most"),
    ("TFLOP/s a device", "tflops_per_device", lambda rate: f"{rate:.3g}", "most"),
    ("MFU", "mfu", _percent, "most"),
    ("HFU", "hfu", _percent, "most"),
)
"""What stands in the columns of the devices' use: title, field, how it is written, the best."""


def _best(column: Column, entries: Sequence[Entry]) -> float | None:
    """The best value of a column, or None where there is none or all are equally good."""
    values = [value for entry in entries if (value := column.value(entry)) is not None]
    if column.best is None or len({column.write(value) for value in values}) < 2:
        return None
    return min(values) if column.best == "least" else max(values)


def _cell(column: Column, entry: Entry, best: float | None) -> Cell:
    value = column.value(entry)
    if value is None:
        return Cell("–")
    text = column.write(value)
    return Cell(text, column.note(entry), best is not None and text == column.write(best))


def _level(page: Page) -> bool:
    """Whether no winner is told of measured strategies: of one run, or of several."""
    return page.source != "simulated" and (not page.single or page.record.winner is None)


def _shown(page: Page) -> Mapping[str, Any]:
    return {
        "table": strategy_table(page.strategies, level=_level(page)),
        "summaries": {
            ", ".join(names): page.strategies[names[0]].summary
            for names in alike(page.strategies, lambda name: page.strategies[name].summary)
        },
    }


SECTION = Section("strategies", 20, _shown)
