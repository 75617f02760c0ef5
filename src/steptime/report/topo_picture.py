"""The picture: the host's tree as nested boxes, and the matrix in the same rows beside it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from steptime.topo.explain import Explained, basis
from steptime.topo.marks import mark_named
from steptime.topo.matrix import Row, cell, shared_rows, span
from steptime.topo.topology import Kind, Level, Place, Topology
from steptime.units import format_rate

_ROW, _CELL, _HEAD, _MARGIN = 28, 46, 96, 16  # pixels
_HOST, _BOX, _LEAF = 34, 138, 150
_MOST_ROWS = 32

_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1c1c1c }
.small { font-size: 11px; fill: #5a5a5a }
.title { font-size: 15px; font-weight: 600 }
.middle { text-anchor: middle }
.box { fill: #ffffff; stroke: #8a8a8a }
.leaf { fill: #f1f3f5; stroke: #8a8a8a }
.self { fill: #e3e3e3 }
.paper { fill: #ffffff }
@media (prefers-color-scheme: dark) {
  text { fill: #e8e8e8 }
  .small { fill: #a8a8a8 }
  .box { fill: #1b1e22; stroke: #6c6c6c }
  .leaf { fill: #2a2f35; stroke: #6c6c6c }
  .self { fill: #33383e }
  .paper { fill: #14171a }
}
"""


@dataclass(frozen=True)
class _Box:
    """A place in the tree: rows [first, first + count) at a depth."""

    place: Place
    first: int
    count: int
    depth: int


def picture(topology: Topology, marks: Sequence[Explained]) -> str:
    """The picture as SVG, for light and dark pages; ``marks``: see ``explained``.

    Rows are in the order of the tree. Of more than 32 parts, those that are interchangeable share a
    row.
    """
    rows = [Row(part.name, (number,)) for number, part in enumerate(topology.parts)]
    if len(rows) > _MOST_ROWS:
        rows = shared_rows(topology)
    rows = _in_tree(topology, rows)
    boxes = list(_boxes(topology, rows))
    deepest = 1 + max((box.depth for box in boxes), default=0)
    left = _MARGIN + _HOST + _BOX * (deepest - 1)
    width = left + _LEAF + _CELL * len(rows) + _MARGIN
    bottom = _HEAD + _ROW * len(rows)
    width = max(width, 620)
    height = bottom + 34 + 20 * (len(marks) + 1)
    body = [
        f'<rect class="paper" width="{width}" height="{height}"/>',
        _text(_MARGIN, 26, topology.host, "title"),
        _text(
            _MARGIN, 46, " ".join([f"Described by {topology.origin}.", *topology.notes]), "small"
        ),
        *_tree(topology, rows, boxes, left),
        *_cells(topology, rows, left + _LEAF),
        *_legend(topology, marks, bottom + 28),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{escape(topology.host)}">'
        f"<style>{_STYLE}</style>{''.join(body)}</svg>\n"
    )


def _above(topology: Topology, row: Row) -> tuple[Place, ...]:
    return topology.parts[row.members[0]].above


def _in_tree(topology: Topology, rows: Sequence[Row]) -> list[Row]:
    """The rows so that those of one place follow each other, else in their order."""
    seen: dict[tuple[Place | Row, ...], int] = {}

    def order(row: Row) -> list[int]:
        path: tuple[Place | Row, ...] = (*_above(topology, row), row)
        prefixes = [path[: depth + 1] for depth in range(len(path))]
        return [seen.setdefault(prefix, len(seen)) for prefix in prefixes]

    return sorted(rows, key=order)


def _boxes(topology: Topology, rows: Sequence[Row]) -> Iterator[_Box]:
    """NUMA nodes, and the places below that hold several rows and not the same as their parent."""

    def below(first: int, count: int, level: int, depth: int) -> Iterator[_Box]:
        at = first
        while at < first + count:
            path = _above(topology, rows[at])[: level + 1]
            end = at + 1
            while end < first + count and _above(topology, rows[end])[: level + 1] == path:
                end += 1
            if len(path) > level:
                place, held = path[level], end - at
                shown = place.level is Level.NUMA or 1 < held < count
                if shown:
                    yield _Box(place, at, held, depth)
                yield from below(at, held, level + 1, depth + shown)
            at = end

    yield from below(0, len(rows), 0, 1)


def _tree(
    topology: Topology, rows: Sequence[Row], boxes: Sequence[_Box], left: int
) -> Iterator[str]:
    tall = _ROW * len(rows)
    yield f'<rect class="box" x="{_MARGIN}" y="{_HEAD}" width="{_HOST}" height="{tall}"/>'
    x, y = _MARGIN + _HOST / 2 + 4, _HEAD + tall / 2
    yield f'<text class="middle" transform="translate({x} {y}) rotate(-90)">host</text>'
    starts = [_MARGIN + _HOST] * len(rows)
    for box in boxes:
        x, y = _MARGIN + _HOST + _BOX * (box.depth - 1), _HEAD + _ROW * box.first
        starts[box.first : box.first + box.count] = [x + _BOX] * box.count
        high = _ROW * box.count
        yield f'<rect class="box" x="{x}" y="{y}" width="{_BOX}" height="{high}"/>'
        rate = f" · {format_rate(box.place.rate)}" if box.place.rate and box.count > 1 else ""
        yield _text(x + _BOX / 2, y + high / 2 + 4 - 8 * bool(rate), box.place.name, "middle")
        if rate:
            yield _text(x + _BOX / 2, y + high / 2 + 11, rate.strip(" ·"), "middle small")
    for number, leaf in enumerate(rows):
        x, y = starts[number], _HEAD + _ROW * number
        wide = left + _LEAF - x
        yield f'<rect class="leaf" x="{x}" y="{y}" width="{wide}" height="{_ROW}"/>'
        yield _text(left + 8, y + 18, leaf.name)
        yield _text(left + 14 + 9 * len(leaf.name), y + 18, _about(topology, leaf), "small")


def _about(topology: Topology, row: Row) -> str:
    parts = [topology.parts[n] for n in row.members]
    title = span([part.title for part in parts]) if parts[0].kind is Kind.NIC else parts[0].title
    short, most = title.removeprefix("NVIDIA "), 19 - 2 * len(row.name)
    return short if len(short) <= most else short[: most - 1] + "…"


def _cells(topology: Topology, rows: Sequence[Row], left: int) -> Iterator[str]:
    for number, row in enumerate(rows):
        x = left + _CELL * number
        yield _text(x + _CELL / 2, _HEAD - 8, row.name, "middle")
        for place, other in enumerate(rows):
            mark, y = cell(topology, other, row), _HEAD + _ROW * place
            at = f'x="{x + 1}" y="{y + 1}" width="{_CELL - 2}" height="{_ROW - 2}" rx="3"'
            if mark == "X":
                yield f'<rect class="self" {at}/>'
                continue
            found = mark_named(mark)
            yield f'<rect {at} fill="{found.color}"/>'
            yield (
                f'<text class="middle" x="{x + _CELL / 2}" y="{y + 18}" '
                f'style="fill:{found.text_color}">{mark}</text>'
            )


def _legend(topology: Topology, marks: Sequence[Explained], top: int) -> Iterator[str]:
    for number, found in enumerate(marks):
        y = top + 20 * number
        yield (
            f'<rect x="{_MARGIN}" y="{y - 11}" width="14" height="14" rx="3" '
            f'fill="{found.kind.color}"/>'
        )
        rate = f", {found.rate}" if found.rate else ""
        yield _text(_MARGIN + 22, y, f"{found.mark}: {found.meaning}{rate}")
    if topology.of_kind(Kind.GPU):
        yield _text(_MARGIN, top + 20 * len(marks), basis(topology), "small")


def _text(x: float, y: float, words: str, look: str = "") -> str:
    kind = f' class="{look}"' if look else ""
    return f'<text x="{x:g}" y="{y:g}"{kind}>{escape(words)}</text>'
