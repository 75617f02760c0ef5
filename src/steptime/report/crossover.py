"""Time against size for all algorithms of a collective: as tables and as JSON."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from steptime.collectives import Algorithm, Schedule
from steptime.collectives.crossover import SIZES, TIE, Curve, Times, curve, fastest, rounded
from steptime.collectives.selection import Choice, Selection
from steptime.errors import UsageError
from steptime.timeline import Source
from steptime.units import Size, format_seconds

MOST_CURVES = 8
SHOWN_SIZES = tuple(1 << power for power in (10, 15, 20, 25, 30))


@dataclass(frozen=True, eq=False)
class Chart:
    """Curves of algorithms by name over ``sizes``, and who is the fastest where.

    ``where`` says what times hold for: a link, or a cluster. ``crossovers`` are the sizes at which
    another algorithm becomes the fastest, in bytes.
    """

    collective: str
    ranks: int
    source: Source
    where: str
    sizes: Sequence[int]
    curves: Mapping[str, Curve]
    selection: Selection
    crossovers: Sequence[float]


def chart(
    algorithms: Sequence[Algorithm],
    made: Callable[[Algorithm, int], Schedule],
    times: Times,
    *,
    ranks: int,
    source: Source,
    where: str,
) -> Chart:
    """Draw up the curves of some algorithms of one collective; ``made`` is that of ``curve``.

    Raises UsageError where they are too many, of several collectives, or take no bytes or no time.
    """
    kinds = sorted({algorithm.collective.name for algorithm in algorithms})
    if len(kinds) > 1:
        raise UsageError(f"a chart is of one collective, not of {', '.join(kinds)}: name one")
    if kinds == ["barrier"]:
        raise UsageError("a barrier has no sizes to draw its time against: choose a collective")
    if len(algorithms) > MOST_CURVES:
        raise UsageError(f"a chart holds {MOST_CURVES} algorithms, not {len(algorithms)}")
    curves = {one.name: curve(one, made, times) for one in algorithms}
    if not all(one.seconds.all() for one in curves.values()):
        raise UsageError("some times are 0, which a chart cannot show: take more ranks than one")
    selection, crossovers = fastest(kinds[0], curves)
    return Chart(kinds[0], ranks, source, where, SIZES, curves, selection, crossovers)


def record(drawn: Chart) -> dict[str, Any]:
    """What ``--json`` prints of a chart."""
    return {
        "collective": drawn.collective,
        "ranks": drawn.ranks,
        "source": drawn.source,
        "where": drawn.where,
        "selection": str(drawn.selection),
        "crossovers_bytes": list(drawn.crossovers),
        "bytes": list(drawn.sizes),
        "algorithms": {
            name: {
                "time_s": one.seconds.tolist(),
                "latency_s": one.latency.tolist(),
                "half_latency_bytes": one.half(drawn.sizes),
            }
            for name, one in drawn.curves.items()
        },
    }


def print_chart(console: Console, drawn: Chart) -> None:
    """Print which algorithm is the fastest at which size, and how long all of them take."""
    console.print()
    console.print(Text(title(drawn), "bold"))
    console.print(Text(f"{drawn.where} ({drawn.source})"))
    console.print()
    console.print(_choices(drawn))
    console.print()
    console.print(_times(drawn))
    console.print(Text(_KEY, "dim"))
    console.print()
    console.print(Text(str(drawn.selection)), soft_wrap=True)


_KEY = (
    "half: the size at which latency, the time of empty messages, is half of the time. Below it "
    "few rounds win, above it few bytes."
)


def title(drawn: Chart) -> str:
    """Which collective on how many ranks."""
    return f"{drawn.collective}, {drawn.ranks} {'rank' if drawn.ranks == 1 else 'ranks'}"


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for number, title in enumerate(columns):
        table.add_column(title, justify="right" if number else "left", no_wrap=True)
    return table


def _choices(drawn: Chart) -> Table:
    table = _table("S from", "to", "fastest", "latency")
    table.columns[2].justify = "left"
    for row in choice_rows(drawn):
        table.add_row(*row)
    return table


def choice_rows(drawn: Chart) -> list[tuple[str, str, str, str]]:
    """Of each choice its sizes, from and to, its algorithm, and the share that latency has."""
    return [
        (_size(choice.first), end_of(choice), choice.algorithm, _share(drawn, choice))
        for choice in drawn.selection.choices
    ]


def _times(drawn: Chart) -> Table:
    table = _table("S =", *(str(Size(size)) for size in SHOWN_SIZES), "half")
    for name, found in cells(drawn).items():
        texts = [Text(text, "bold green" if best else "") for text, best in found]
        table.add_row(name, *texts, half(drawn.curves[name], drawn.sizes))
    return table


def cells(drawn: Chart) -> dict[str, list[tuple[str, bool]]]:
    """Of each algorithm its times at the shown sizes, and whether they are the best."""
    at = [drawn.sizes.index(size) for size in SHOWN_SIZES]
    least = np.stack([one.seconds[at] for one in drawn.curves.values()]).min(axis=0) * (1 + TIE)
    return {
        name: [
            (format_seconds(seconds), seconds <= best)
            for seconds, best in zip(one.seconds[at].tolist(), least.tolist(), strict=True)
        ]
        for name, one in drawn.curves.items()
    }


def half(one: Curve, sizes: Sequence[int]) -> str:
    """The size at which latency is half of the time, in words where there is none."""
    half = one.half(sizes)
    return "never" if half is None else _size(rounded(half)) if half else f"<{Size(sizes[0])}"


def _size(nbytes: int) -> str:
    return str(Size(nbytes)) if nbytes else "0"


def end_of(choice: Choice) -> str:
    """Where the range of a choice ends."""
    return "max" if choice.end is None else _size(choice.end)


def _share(drawn: Chart, choice: Choice) -> str:
    """From what to what share latency has of the time in the range of a choice."""
    one = drawn.curves[choice.algorithm]
    ends = (choice.first, drawn.sizes[-1] if choice.end is None else choice.end)
    shares = [
        float(np.interp(size, drawn.sizes, one.latency) / np.interp(size, drawn.sizes, one.seconds))
        for size in (max(ends[0], drawn.sizes[0]), ends[1])
    ]
    return " – ".join(f"{100 * share:.0f} %" for share in shares)
