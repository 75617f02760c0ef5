"""``tune``: Which algorithm is the fastest for which size here?"""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from steptime import files
from steptime.cli.measuring import (
    REPORT,
    oversubscription,
    provenance,
    ranks_here,
    teller,
    write_measured,
)
from steptime.cli.options import Flat, OutputOptions, RankOptions
from steptime.cli.printing import say, say_json
from steptime.cli.ranks import Place, on_ranks
from steptime.measure.options import BenchOptions
from steptime.turns import TurnOptions

if TYPE_CHECKING:
    from steptime.api.tuning import Tuned
    from steptime.measure.bench import Bench

_HINT = "selection.json names them; --see 5% takes as many turns as would tell more."


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
    from steptime.api.tuning import to_tune
    from steptime.measure.place import check_place

    def check(size: int) -> None:
        asked = to_tune(measured, turns, op, algorithms, size)
        check_place(asked, ranks.backend, size, ranks_here(size))

    def work(place: Place) -> None:
        _tune(to_tune(measured, turns, op, algorithms, place.world.size), place, ranks, output)

    return on_ranks("tune", ranks, output, 4, check, work)


def _tune(asked: "Bench", place: Place, ranks: RankOptions, output: OutputOptions) -> None:
    from steptime.api.tuning import tuned
    from steptime.measure.place import make_transport

    transport = make_transport(ranks.backend, registered=asked.registered)
    tell = teller(transport.rank, output, aside=output.json)
    for line in oversubscription(place):
        tell(line)
    found = tuned(transport, asked, provenance(place, ranks), tell)
    if found is not None:
        _answer(found, place, output)


def _answer(found: "Tuned", place: Place, output: OutputOptions) -> None:
    from steptime.report.tune_lines import answer

    out = place.out
    write_measured(out, found.record)
    files.write_json(out / "selection.json", {**found.environment, "level": found.level})
    if output.json:
        say_json(found.record)
        return
    told = answer(found.record, _HINT)
    say(f"\n{told}\n\nrun: {out / 'run.json'}\nreport: {out / REPORT}")
