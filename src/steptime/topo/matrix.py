"""A topology's matrix and parts as lines of a terminal: coloured there, plain ASCII in a pipe."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.text import Text

from steptime.topo.marks import MARKS, mark_named
from steptime.topo.topology import Kind, Topology
from steptime.units import format_bytes

_MOST_ROWS = 16


@dataclass(frozen=True)
class Row:
    """A row of the matrix: one part, or several that are at the same distance from all others."""

    name: str
    members: tuple[int, ...]


def matrix_lines(
    topology: Topology, columns: int, slowest: tuple[int, int] | None = None
) -> list[Text]:
    """The matrix in at most so many columns; a star marks the cells of the pair ``slowest``.

    Where it has 16 rows or more, or does not fit, parts that are at the same distance from all
    others share a row. If it is still too wide, it is printed in blocks of columns, then without
    rows of NICs.
    """
    rows = [Row(part.name, (number,)) for number, part in enumerate(topology.parts)]
    if len(rows) >= _MOST_ROWS or _width(topology, rows) > columns:
        rows = shared_rows(topology)
    if _width(topology, rows) <= columns:
        return _block(topology, rows, rows, slowest)
    left = [row for row in rows if topology.parts[row.members[0]].kind is not Kind.NIC] or rows
    lines: list[Text] = []
    for block in _blocks(topology, rows, columns):
        lines += [*_block(topology, left, block, slowest), Text()]
    return lines[:-1]


def shared_rows(topology: Topology) -> list[Row]:
    """The parts in rows: those of one kind with the same marks towards all others share one."""
    groups: list[list[int]] = []
    for number in range(len(topology.parts)):
        for group in groups:
            if _interchangeable(topology, group[0], number):
                group.append(number)
                break
        else:
            groups.append([number])
    return [Row(span([topology.parts[n].name for n in group]), tuple(group)) for group in groups]


def _interchangeable(topology: Topology, a: int, b: int) -> bool:
    marks = topology.marks
    others = (n for n in range(len(topology.parts)) if n not in (a, b))
    same_kind = topology.parts[a].kind is topology.parts[b].kind
    return same_kind and all(marks[a][n] == marks[b][n] for n in others)


def span(names: Sequence[str]) -> str:
    """``GPU0-3,5`` for the names of parts of one kind, in order; any others with commas."""
    stems = {name.rstrip("0123456789") for name in names}
    if len(stems) != 1 or not all(name[-1:].isdecimal() for name in names):
        return ",".join(names)
    stem = stems.pop()
    numbers = [int(name.removeprefix(stem)) for name in names]
    runs = [
        [number for _, number in run]
        for _, run in groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    ]
    return stem + ",".join(f"{run[0]}-{run[-1]}" if run[1:] else f"{run[0]}" for run in runs)


def cell(topology: Topology, row: Row, column: Row) -> str:
    """The mark between two rows; of a row with itself the mark between its members."""
    if row.members != column.members:
        return topology.marks[row.members[0]][column.members[0]]
    return topology.marks[row.members[0]][row.members[1]] if row.members[1:] else "X"


def _width(topology: Topology, rows: Sequence[Row]) -> int:
    head = max(len(row.name) for row in shared_rows(topology))
    return head + sum(_cell_width(row) for row in rows)


def _cell_width(row: Row) -> int:
    return 1 + max(5, len(row.name))


def _blocks(topology: Topology, rows: Sequence[Row], columns: int) -> list[list[Row]]:
    blocks: list[list[Row]] = [[]]
    for row in rows:
        kinds = {topology.parts[r.members[0]].kind for r in [*blocks[-1], row]}
        if blocks[-1] and (len(kinds) > 1 or _width(topology, [*blocks[-1], row]) > columns):
            blocks.append([])
        blocks[-1].append(row)
    return blocks


def _block(
    topology: Topology,
    rows: Sequence[Row],
    columns: Sequence[Row],
    slowest: tuple[int, int] | None,
) -> list[Text]:
    head = max(len(row.name) for row in rows)
    lines = [Text(" " * head + "".join(f"{c.name:>{_cell_width(c)}}" for c in columns))]
    for row in rows:
        line = Text(f"{row.name:<{head}}")
        for column in columns:
            mark = cell(topology, row, column)
            text = mark + ("*" if _holds(row, column, slowest) else "")
            line.append(" " * (_cell_width(column) - len(text)))
            line.append(text, style="dim" if mark == "X" else mark_style(mark))
        lines.append(line)
    return lines


def _holds(row: Row, column: Row, pair: tuple[int, int] | None) -> bool:
    if pair is None:
        return False
    a, b = pair
    return (a in row.members and b in column.members) or (b in row.members and a in column.members)


def mark_style(mark: str) -> str:
    """How a terminal shows a mark."""
    found = mark_named(mark)
    return f"{found.text_color} on {found.color}"


def part_lines(topology: Topology) -> list[Text]:
    """Each part and its place; parts that only differ in their number share a line."""
    described: dict[tuple[str, str], list[int]] = {}
    for number, part in enumerate(topology.parts):
        title = "" if part.kind is Kind.NIC else part.title
        rate = f"{format_bytes(part.network)}/s" if part.network else ""
        numa = f"NUMA {part.numa}" if part.numa and part.kind is not Kind.CPU else ""
        cpus = f"CPUs {part.cpus}" if part.cpus else ""
        words = ", ".join(word for word in (title, rate, numa, cpus) if word)
        described.setdefault((part.kind, words), []).append(number)
    lines = []
    for (_, words), members in described.items():
        parts = [topology.parts[n] for n in members]
        titles = span([part.title for part in parts]) if parts[0].kind is Kind.NIC else ""
        about = ", ".join(word for word in (titles, words) if word)
        if about:
            lines.append(Text(f"{span([part.name for part in parts])}  {about}", overflow="fold"))
    return lines


def legend_lines(topology: Topology, columns: int) -> list[Text]:
    """The marks that occur in the matrix and their meaning, in as few lines as possible."""
    present = {mark_named(m).name for row in topology.marks for m in row if m != "X"}
    lines, text = [], Text()
    for mark in (mark for mark in MARKS if mark.name in present):
        entry = Text.assemble((mark.name, mark_style(mark.name)), f" {mark.meaning}")
        if text and text.cell_len + 3 + entry.cell_len > columns:
            lines.append(text)
            text = Text()
        text = Text.assemble(text, "   ", entry) if text else entry
    return [*lines, text] if text else lines
