"""Reading the output of ``nvidia-smi topo -m`` of any driver version, of any machine."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from steptime.errors import UsageError
from steptime.limits import check_within
from steptime.topo.marks import is_mark
from steptime.topo.topology import MOST_PARTS, Kind, Level, Marks, Part, Place, Topology

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_OLD_MARKS = {"SOC": "SYS"}  # before 2017
_HEADER = re.compile(r"^\s*GPU\d+\b(?!\s+X\b)")
_ALIAS = re.compile(r"^\s*(NIC\d+):\s*(\S+)\s*$")


@dataclass(frozen=True)
class _Row:
    marks: tuple[str, ...]
    rest: tuple[str, ...]


def looks_like_matrix(text: str) -> bool:
    """Whether a line looks like the head of a matrix."""
    return any(_HEADER.match(line) for line in _plain(text))


def parse_matrix(text: str, name: str) -> Topology:
    """The topology that ``text``, the output of ``nvidia-smi topo -m``, describes.

    Columns may be separated by tabs or by blanks. ``name`` is what errors call the text. The places
    above each part are inferred from the marks. Raises UsageError where a row is missing, cut short
    or names an unknown mark.
    """
    lines = _plain(text)
    start = next((n for n, line in enumerate(lines) if _HEADER.match(line)), None)
    if start is None:
        raise UsageError(
            f"{name} holds no matrix: save the whole output of nvidia-smi topo -m, with the line "
            "that begins with GPU0"
        )
    header = lines[start].split()
    devices = header[: header.index("CPU")] if "CPU" in header else header
    check_within("the number of GPUs and NICs", len(devices), 1, MOST_PARTS)
    rows = _rows(lines, start, devices, name)
    marks = tuple(rows[device].marks for device in devices)
    _check_symmetric(marks, devices, name)
    aliases = {m[1]: m[2] for line in lines if (m := _ALIAS.match(line))}
    columns = _titles(header[len(devices) :])
    parts = [_part(device, rows[device].rest, columns) for device in devices]
    nics = [part for part in parts if part.kind is Kind.NIC]
    parts = [part for part in parts if part.kind is Kind.GPU] + [
        # An old driver calls a NIC mlx5_0 where a new one has NIC0 and says below what that is.
        replace(nic, name=f"NIC{number}", title=aliases.get(nic.name, nic.name))
        for number, nic in enumerate(nics)
    ]
    return Topology(
        origin="nvidia-smi topo -m",
        host=name,
        parts=_placed(parts, marks),
        marks=marks,
    )


def _plain(text: str) -> list[str]:
    return _ANSI.sub("", text).splitlines()


def _rows(lines: Sequence[str], start: int, devices: Sequence[str], name: str) -> dict[str, _Row]:
    rows: dict[str, _Row] = {}
    for number, line in enumerate(lines[start + 1 :], start + 2):
        device, *cells = line.split() or [""]
        if device not in devices:
            continue
        if device in rows:
            raise UsageError(f"line {number} of {name} is a second row of {device}: remove one")
        rows[device] = _Row(
            _marks(cells, device, devices, f"line {number} of {name}"), tuple(cells[len(devices) :])
        )
    if missing := [device for device in devices if device not in rows]:
        raise UsageError(
            f"the matrix of {name} is not square: it has {len(devices)} columns and {len(rows)} "
            f"rows, none for {missing[0]}; save the whole output of nvidia-smi topo -m"
        )
    return rows


def _marks(
    cells: Sequence[str], device: str, devices: Sequence[str], where: str
) -> tuple[str, ...]:
    if len(cells) < len(devices):
        raise UsageError(
            f"{where}, the row of {device}, has {len(cells)} marks for {len(devices)} columns: "
            "save the whole output of nvidia-smi topo -m"
        )
    found = tuple(_OLD_MARKS.get(cell, cell) for cell in cells[: len(devices)])
    for other, mark in zip(devices, found, strict=True):
        if not (mark == "X" if other == device else is_mark(mark)):
            raise UsageError(
                f"{where} has {mark!r} from {device} to {other}: a mark is NV and a number, PIX, "
                "PXB, PHB, NODE or SYS, and X from a device to itself"
            )
    return found


def _check_symmetric(marks: Marks, devices: Sequence[str], name: str) -> None:
    for a, row in enumerate(marks):
        for b, mark in enumerate(row):
            if marks[b][a] != mark:
                raise UsageError(
                    f"{name} has {mark} from {devices[a]} to {devices[b]} and {marks[b][a]} back: "
                    "one of the two is a slip"
                )


def _titles(words: Sequence[str]) -> list[str]:
    """The titles of the columns behind the marks, which contain blanks."""
    text = " ".join(words)
    known = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
    return sorted((title for title in known if title in text), key=text.index)


def _part(device: str, rest: Sequence[str], columns: Sequence[str]) -> Part:
    found = {t: cell for t, cell in zip(columns, rest, strict=False) if cell != "N/A"}
    return Part(
        name=device,
        kind=Kind.GPU if device.startswith("GPU") else Kind.NIC,
        numa=found.get("NUMA Affinity", ""),
        cpus=found.get("CPU Affinity", ""),
    )


def _placed(parts: Sequence[Part], marks: Marks) -> tuple[Part, ...]:
    """The parts with the places above them, as far as the marks determine them."""

    def joined(*near: str) -> list[int]:
        return _groups(len(parts), lambda a, b: marks[a][b] in near)

    def same_node(a: int, b: int) -> bool:
        together = parts[a].numa and parts[a].numa == parts[b].numa
        return bool(together) or marks[a][b] in ("PIX", "PXB", "PHB", "NODE")

    node, bridge = _groups(len(parts), same_node), joined("PIX", "PXB", "PHB")
    outer, inner = joined("PIX", "PXB"), joined("PIX")
    numbered = {group: number for number, group in enumerate(dict.fromkeys(node))}
    placed = []
    for n, part in enumerate(parts):
        labels = [p.numa for p, group in zip(parts, node, strict=True) if group == node[n]]
        numa = next((label for label in labels if label), "")
        above = []
        if numa or node.count(node[n]) > 1:
            above.append(Place(Level.NUMA, f"NUMA {numa or f'group {numbered[node[n]]}'}"))
        if bridge.count(bridge[n]) > max(1, outer.count(outer[n])):
            above.append(Place(Level.BRIDGE, f"host bridge of {parts[bridge[n]].name}"))
        if outer.count(outer[n]) > max(1, inner.count(inner[n])):
            above.append(Place(Level.SWITCH, f"switch above {parts[outer[n]].name}"))
        if inner.count(inner[n]) > 1:
            above.append(Place(Level.SWITCH, f"switch of {parts[inner[n]].name}"))
        placed.append(replace(part, numa=numa, above=tuple(above)))
    return tuple(placed)


def _groups(count: int, near: Callable[[int, int], bool]) -> list[int]:
    """Of each of ``count`` things the first one of its group; ``near`` pairs join groups."""
    group = list(range(count))
    for b in range(count):
        for a in range(b):
            if group[a] != group[b] and near(a, b):
                low, high = sorted((group[a], group[b]))
                group = [low if g == high else g for g in group]
    return group
