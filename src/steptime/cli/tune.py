"""``tune``: Which algorithm is the fastest for which size here?"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from steptime import files
from steptime.cli.measuring import oversubscription, provenance, ranks_here, teller
from steptime.cli.options import Flat, OutputOptions, RankOptions
from steptime.cli.printing import say
from steptime.cli.ranks import Place, on_ranks
from steptime.errors import SteptimeError, UsageError
from steptime.measure.options import BenchOptions
from steptime.runs import run_folder
from steptime.units import Size, format_seconds

if TYPE_CHECKING:
    from steptime.collectives.selection import Selection
    from steptime.measure.bench import Bench
    from steptime.measure.tune import Contest


def tune(
    op: Annotated[str, Parameter(name="OP")] = "all_reduce",
    /,
    *,
    measured: Flat[BenchOptions] = BenchOptions(),
    ranks: Flat[RankOptions] = RankOptions(),
    output: Flat[OutputOptions] = OutputOptions(),
    algorithms: str = "all",
) -> int:
    """Which algorithm is the fastest for which size here?

    Algorithms take turns at each size, and medians are compared. The selection is one line, such
    as recursive_doubling:0-8KiB;builtin:8KiB-max, which the backend steptime reads.

    Parameters
    ----------
    op
        all_reduce, all_gather, reduce_scatter, broadcast, reduce, gather, scatter or all_to_all.
    algorithms
        Which may be selected, with commas: names as `steptime verify` lists them, FILE.py or
        FILE.xml with one of your own, and builtin for the library's own; all: every one that is
        shipped and can serve the ranks.

    """
    from steptime.measure.place import check_place

    if op in ("sendrecv", "barrier"):
        raise UsageError(f"{op} has no sizes to select an algorithm for: choose a collective")

    def check(size: int) -> None:
        check_place(_contest(measured, op, algorithms, size), ranks.backend, size, ranks_here(size))

    def work(place: Place) -> None:
        _tune(_contest(measured, op, algorithms, place.world.size), place, ranks, output)

    return on_ranks("tune", ranks, output, 4, check, work)


def _contest(measured: BenchOptions, op: str, words: str, ranks: int) -> "Bench":
    """What is measured; an algorithm of a file goes by the file's name, as a selection finds it."""
    from steptime.collectives.lookup import find_algorithm, is_own

    asked = measured.bench(op, words, ranks)
    file_of = {find_algorithm(op, word).name: word for word in words.split(",") if is_own(word)}
    named = (
        algorithm and replace(algorithm, name=file_of.get(algorithm.name, algorithm.name))
        for algorithm in asked.algorithms
    )
    return replace(asked, algorithms=tuple(named))


def _tune(asked_for: "Bench", place: Place, ranks: RankOptions, output: OutputOptions) -> None:
    from steptime.measure.place import hosts_of, make_transport
    from steptime.measure.tune import contests, select

    transport = make_transport(ranks.backend, registered=asked_for.registered)
    tell = teller(transport.rank, output, aside=output.json)
    operation = asked_for.operation.name
    for line in oversubscription(place):
        tell(line)
    tell(f"# {operation} on {transport.ranks} ranks ({transport.library}), measured")
    tell(f"#{'size':>8} {'fastest':<22}{'time':>9}{'builtin':>9}{'gain':>7}  next")
    found = contests(transport, asked_for, hosts_of(transport), lambda c: tell(_line(c)))
    if wrong := sum(contest.wrong for contest in found):
        raise SteptimeError(
            f"{wrong} elements of the results are wrong, so nothing is selected: steptime bench "
            f"{operation} --algorithms all says under which algorithm"
        )
    selection = select(operation, found)
    if transport.rank == 0:
        _answer(selection, found, {**provenance(place, ranks), "op": operation}, place, output)


def _line(contest: "Contest") -> str:
    from steptime.collectives.selection import BUILTIN

    ranked = sorted(contest.seconds, key=contest.seconds.__getitem__)
    best = contest.seconds[ranked[0]]
    builtin = contest.seconds.get(BUILTIN)
    columns = f" {Size(contest.size_bytes)!s:>8} {ranked[0]:<22}{format_seconds(best):>9}"
    columns += f"{format_seconds(builtin):>9}{builtin / best:>6.2f}x" if builtin else f"{'-':>16}"
    return f"{columns}  {ranked[1]}" if len(ranked) > 1 else columns


def _answer(
    selection: "Selection",
    found: Sequence["Contest"],
    where: Mapping[str, Any],
    place: Place,
    output: OutputOptions,
) -> None:
    variable = f"STEPTIME_{selection.collective.upper()}"
    run = {
        "verb": "tune",
        "source": "measured",
        **where,
        "selection": str(selection),
        "variable": variable,
        "contests": [
            {
                "source": "measured",
                "size_bytes": contest.size_bytes,
                "selected": selection.algorithm(contest.size_bytes),
                "fastest": contest.fastest,
                "time_us": {name: s * 1e6 for name, s in contest.seconds.items()},
            }
            for contest in found
        ],
        "environment": run_folder.environment(),
    }
    run_folder.write_record(place.out, run)
    files.write_json(place.out / "selection.json", {variable: str(selection)})
    if output.json:
        say(json.dumps(run))
        return
    say(
        f"\n{selection}\n\n"
        f"The backend steptime reads it from the environment, on {place.world.size} ranks:\n"
        f"export {variable}='{selection}'\n\nrun: {place.out / 'run.json'}"
    )
