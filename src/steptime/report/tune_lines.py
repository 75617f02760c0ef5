"""Algorithms that took turns, in lines of text: one for each size, and what is selected."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from steptime.collectives.selection import BUILTIN
from steptime.units import Size, format_seconds

if TYPE_CHECKING:
    from steptime.measure.contest import Contest


def header(op: str, ranks: int, library: str) -> list[str]:
    """The lines above the sizes; ``library``: name and version of what moves the data."""
    return [
        f"# {op} on {ranks} ranks ({library}), measured in turns",
        "# * is the fastest: the 99 % intervals of the times of all others over its own",
        "#   lie above 1; the last column has that of the next",
        f"#{'size':>8}  {'shortest':<22}{'time':>9}{'builtin':>9}{'gain':>7}  next, times as long",
    ]


def contest_line(contest: "Contest") -> str:
    """Who is the fastest at a size or level with it, its time, and how far behind the next is."""
    names, times = contest.names, contest.medians
    best = times[names[contest.best]]
    name = f"{' ' if contest.level else '*'}{names[contest.best]}"
    columns = f" {Size(contest.size_bytes)!s:>8} {name:<23}{format_seconds(best):>9}"
    builtin = times.get(BUILTIN)
    columns += (
        f"{format_seconds(builtin):>9}{_times(builtin / best):>6}x" if builtin else f"{'-':>16}"
    )
    if contest.level:
        count = len(contest.level)
        return f"{columns}  level with {count} other{'s' * (count > 1)}"
    ratios = [contest.ratio(at) for at in range(len(names)) if at != contest.best]
    if not ratios:
        return columns
    ratio, (low, high) = min(one for one in ratios if one)
    return f"{columns}  {_times(ratio)} ({_times(low)} to {_times(high)})"


def answer(run: Mapping[str, Any], hint: str) -> str:
    """The selection of a ``run`` of tune, and how the backend steptime reads it.

    ``hint``: what to do about sizes where several algorithms cannot be told apart.
    """
    selection, level = run["selection"], sum(bool(one["level_with"]) for one in run["contests"])
    doubt = (
        f"\nAt {level} of {len(run['contests'])} sizes several are level: it keeps there what it "
        f"takes beside it.\n{hint}\n"
    )
    return (
        f"{selection}\n{doubt if level else ''}\n"
        f"The backend steptime reads it from the environment, on {run['ranks']} ranks:\n"
        f"export {run['variable']}='{selection}'"
    )


def _times(ratio: float) -> str:
    """How many times as long, in at most four characters: a late call makes a range very wide."""
    if ratio >= 999.5:
        return ">999"
    return f"{ratio:.{2 if ratio < 9.995 else 1 if ratio < 99.95 else 0}f}"
