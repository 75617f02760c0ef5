"""The table of strategies: one row a strategy, the best value of each column marked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from steptime.report.about import byte_sources, sources
from steptime.report.palette import PARTS
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
    whole = sum(getattr(entry, part.field) for part in PARTS)
    return float(getattr(entry, field) / whole) if whole else 0.0


def percent(fraction: float) -> str:
    """A fraction as whole percent, kept on one line; what is not nothing is never 0 %."""
    return "<\u00a01\u00a0%" if 0 < fraction < 0.005 else f"{100 * fraction:.0f}\u00a0%"


def strategy_table(strategies: Mapping[str, Entry]) -> Table:
    """The table of ``strategies`` as a record has them; one alone is compared with nothing."""
    entries = list(strategies.values())
    groups = _groups(entries)
    columns = [column for _, members in groups for column in members]
    marks = [_best(column, entries) for column in columns]
    rows = [
        (name, [_cell(c, entry, best) for c, best in zip(columns, marks, strict=True)])
        for name, entry in strategies.items()
    ]
    return Table([(title, len(members)) for title, members in groups], columns, rows)


def _groups(entries: Sequence[Entry]) -> list[tuple[str, list[Column]]]:
    """The columns under their titles, without those that no strategy has a value for."""
    source, of_bytes = sources(entries), byte_sources(entries)
    groups = [
        ("Time of a step", _time_columns(source)),
        ("Bytes of a step", _byte_columns(of_bytes)),
        ("Speed", _speed_columns(source, compared=len(entries) > 1)),
    ]
    had = [
        (title, [c for c in columns if any(c.value(entry) is not None for entry in entries)])
        for title, columns in groups
    ]
    return [(title, columns) for title, columns in had if columns]


def _time_columns(source: str) -> list[Column]:
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
    return [median, spread, *(_part_column(part.field, part.label, source) for part in PARTS)]


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
    return [tokens, against] if compared else [tokens]


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


def _shown(page: Page) -> Mapping[str, Any]:
    return {
        "table": strategy_table(page.strategies),
        "summaries": {name: entry.summary for name, entry in page.strategies.items()},
    }


SECTION = Section("strategies", 20, _shown)
