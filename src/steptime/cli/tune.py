"""``tune``: Which algorithm is the fastest for which size here?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from steptime import files
from steptime.cli.measuring import (
    REPORT,
    leave_measured,
    oversubscription,
    provenance,
    ranks_here,
    teller,
)
from steptime.cli.options import Flat, OutputOptions, RankOptions
from steptime.cli.printing import say, say_json
from steptime.cli.ranks import Place, on_ranks
from steptime.errors import UsageError
from steptime.measure.options import BenchOptions
from steptime.runs import run_folder
from steptime.turns import TurnOptions
from steptime.units import Size, format_seconds

if TYPE_CHECKING:
    from steptime.collectives.selection import Selection
    from steptime.measure.bench import Bench
    from steptime.measure.contest import Contest


def tune(
    op: Annotated[str, Parameter(name="OP")] = "all_reduce",
    /,
    *,
    measured: Flat[BenchOptions] = BenchOptions(),
    ranks: Flat[RankOptions] = RankOptions(),
    output: Flat[OutputOptions] = OutputOptions(),
    algorithms: str = "all",
    turns: Flat[TurnOptions] = TurnOptions(),
) -> int:
    """Which algorithm is the fastest for which size here?

    Algorithms take turns at each size. Where several cannot be told from the fastest, that of the
    neighbouring size is kept. The selection is one line, such as
    recursive_doubling:0-8KiB;builtin:8KiB-max, which the backend steptime reads.

    Parameters
    ----------
    op
        all_reduce, all_gather, reduce_scatter, broadcast, reduce, gather, scatter or all_to_all.
    algorithms
        Which may be selected, with commas: names as `steptime verify` lists them, FILE.py,
        which is run, or FILE.xml with one of your own, and builtin for the library's own; all:
        every one that is shipped and can serve the ranks.

    """
    from steptime.measure.place import check_place

    if op in ("sendrecv", "barrier"):
        raise UsageError(f"{op} has no sizes to select an algorithm for: choose a collective")

    asked = _Asked(measured, op, algorithms, turns)

    def check(size: int) -> None:
        check_place(_contest(asked, size), ranks.backend, size, ranks_here(size))

    def work(place: Place) -> None:
        _tune(_contest(asked, place.world.size), place, ranks, output)

    return on_ranks("tune", ranks, output, 4, check, work)


@dataclass(frozen=True)
class _Asked:
    """What the command line asks to be measured."""

    measured: BenchOptions
    op: str
    algorithms: str
    turns: TurnOptions


def _contest(asked: _Asked, ranks: int) -> "Bench":
    """What is measured; an algorithm of a file goes by the file's name, as a selection finds it."""
    from steptime.collectives.lookup import find_algorithm, is_own

    bench = asked.measured.bench(asked.op, asked.algorithms, ranks, asked.turns)
    own = [word for word in asked.algorithms.split(",") if is_own(word)]
    file_of = {find_algorithm(asked.op, word).name: word for word in own}
    named = (
        algorithm and replace(algorithm, name=file_of.get(algorithm.name, algorithm.name))
        for algorithm in bench.algorithms
    )
    return replace(bench, algorithms=tuple(named))


def _tune(asked_for: "Bench", place: Place, ranks: RankOptions, output: OutputOptions) -> None:
    from steptime.measure.place import hosts_of, make_transport
    from steptime.measure.tune import contests, select

    transport = make_transport(ranks.backend, registered=asked_for.registered)
    tell = teller(transport.rank, output, aside=output.json)
    operation = asked_for.operation.name
    for line in oversubscription(place):
        tell(line)
    tell(f"# {operation} on {transport.ranks} ranks ({transport.library}), measured in turns")
    tell("# * is the fastest: the 99 % intervals of the times of all others over its own")
    tell("#   lie above 1; the last column has that of the next")
    tell(f"#{'size':>8}  {'shortest':<22}{'time':>9}{'builtin':>9}{'gain':>7}  next, times as long")
    found = contests(transport, asked_for, hosts_of(transport), lambda c: tell(_line(c)))
    if transport.rank == 0:
        where = {**provenance(place, ranks), "op": operation}
        _answer(asked_for, select(operation, found), found, where, place, output)


def _line(contest: "Contest") -> str:
    from steptime.collectives.selection import BUILTIN

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


def _times(ratio: float) -> str:
    """How many times as long, in at most four characters: a late call makes a range very wide."""
    if ratio >= 999.5:
        return ">999"
    return f"{ratio:.{2 if ratio < 9.995 else 1 if ratio < 99.95 else 0}f}"


def _answer(
    asked_for: "Bench",
    selection: "Selection",
    found: Sequence["Contest"],
    where: Mapping[str, Any],
    place: Place,
    output: OutputOptions,
) -> None:
    from steptime.measure.session import contests_record

    variable = f"STEPTIME_{selection.collective.upper()}"
    told = contests_record(asked_for, found)
    contests = [
        {
            **contest,
            "selected": selection.algorithm(one.size_bytes),
            "fastest": one.names[one.best],
            "time_us": {name: s * 1e6 for name, s in one.medians.items()},
        }
        for one, contest in zip(found, told["contests"], strict=True)
    ]
    run = {
        "verb": "tune",
        "source": "measured",
        **where,
        "selection": str(selection),
        "variable": variable,
        **told,
        "contests": contests,
        "environment": run_folder.environment(),
    }
    leave_measured(place.out, run)
    level = {
        str(Size(one.size_bytes)): [one.names[at] for at in (one.best, *one.level)]
        for one in found
        if one.level
    }
    files.write_json(place.out / "selection.json", {variable: str(selection), "level": level})
    if output.json:
        say_json(run)
        return
    say(
        f"\n{selection}\n{_doubt(len(level), len(found))}\n"
        f"The backend steptime reads it from the environment, on {place.world.size} ranks:\n"
        f"export {variable}='{selection}'\n\nrun: {place.out / 'run.json'}\n"
        f"report: {place.out / REPORT}"
    )


def _doubt(level: int, sizes: int) -> str:
    """What the selection stands on where algorithms are level, in lines."""
    if not level:
        return ""
    return (
        f"\nAt {level} of {sizes} sizes several are level: it keeps there what it takes beside "
        "it.\nselection.json names them; --see 5% takes as many turns as would tell more.\n"
    )
