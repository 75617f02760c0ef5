"""A topology in the terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from steptime.arrays import Floats
from steptime.topo.explain import basis, explained, findings
from steptime.topo.matrix import legend_lines, mark_style, matrix_lines, part_lines
from steptime.topo.ring import Ring
from steptime.topo.topology import Kind, Topology


def print_topology(
    console: Console, topology: Topology, rates: Floats, ring: Ring | None, *, explain: bool
) -> None:
    """Print the host, its matrix and parts; with ``explain`` what each mark means for training."""
    starred = ring.slowest if explain and ring and not ring.even else None
    console.print(Text(f"{topology.host} ({topology.origin})"))
    for note in topology.notes:
        console.print(Text(note))
    console.print()
    for line in matrix_lines(topology, console.width, starred):
        console.print(line, no_wrap=True, overflow="crop")
    console.print()
    for line in part_lines(topology):
        console.print(line)
    console.print()
    if not explain:
        for line in legend_lines(topology, console.width):
            console.print(line)
        return
    _print_meaning(console, topology, rates)
    for sentence in findings(topology, ring):
        console.print(Text(sentence))


def _print_meaning(console: Console, topology: Topology, rates: Floats) -> None:
    table = Table.grid(padding=(0, 2))
    told = set()
    for found in explained(topology, rates):
        about = f"{found.meaning[0].upper()}{found.meaning[1:]}"
        advised = topology.of_kind(Kind.GPU) and found.kind.name not in told
        advice = f": {found.kind.advice}" if advised else ""
        told.add(found.kind.name)
        table.add_row(
            Text(found.mark, style=mark_style(found.mark)),
            Text(found.rate),
            Text(f"{about}{advice}."),
        )
    console.print(table)
    console.print()
    if topology.of_kind(Kind.GPU):
        console.print(Text(basis(topology)))
