"""``bench``: How fast are collectives and links here, with which algorithm?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from cyclopts import Parameter

from steptime.cli.measuring import (
    REPORT,
    columns_of_stdout,
    oversubscription,
    provenance,
    ranks_here,
    teller,
    write_measured,
    write_text,
)
from steptime.cli.options import Flat, OutputOptions, RankOptions
from steptime.cli.printing import say_json
from steptime.cli.ranks import Place, on_ranks
from steptime.errors import SteptimeError, UsageError
from steptime.measure.options import BenchOptions
from steptime.turns import TurnOptions

if TYPE_CHECKING:
    from steptime.measure.bench import Bench

StyleChoice: TypeAlias = Literal["auto", "nccl", "narrow", "osu"]


@dataclass(frozen=True)
class _Asked:
    """What the command line asks for beside the measurement itself."""

    style: StyleChoice
    csv: str | None
    pairs: bool
    ranks: RankOptions
    output: OutputOptions


def bench(
    op: Annotated[str, Parameter(name="OP")] = "all_reduce",
    /,
    *,
    measured: Flat[BenchOptions] = BenchOptions(),
    ranks: Flat[RankOptions] = RankOptions(),
    output: Flat[OutputOptions] = OutputOptions(),
    style: StyleChoice = "auto",
    csv: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    pairs: bool = False,
    algorithms: str = "builtin",
    turns: Flat[TurnOptions] = TurnOptions(),
) -> int:
    """How fast are collectives and links here, with which algorithm?

    Flags, sizes and columns are those of nccl-tests. algbw is the size over the time. busbw is
    algbw times what a perfect algorithm must move over each link for each byte, such as 2(n-1)/n
    for an all_reduce: compare it with the speed of a link, and between numbers of ranks. A rank
    never sees that many bytes per second.

    Parameters
    ----------
    op
        all_reduce, all_gather, reduce_scatter, broadcast, reduce, gather, scatter, all_to_all,
        barrier or sendrecv.
    style
        nccl: the columns of nccl-tests, and at their right p50, p99, cv and the algorithm;
        narrow: what fits 80 columns; osu: those of the OSU benchmarks; auto: nccl where it fits.
    csv
        Write the rows as CSV to this file; -: to stdout.
    pairs
        Measure latency and bandwidth between every pair of ranks too, as sendrecv does.
    algorithms
        Which to measure, with commas: builtin for the library's own, names as `steptime verify`
        lists them, or FILE.py, which is run; all: every one that can serve the ranks.

    """
    if csv == "-" and output.json:
        raise UsageError("--json and --csv - both ask for stdout: give --csv a file")
    from steptime.measure.place import check_place

    asked = _Asked(style, csv, pairs or op == "sendrecv", ranks, output)

    def check(size: int) -> None:
        if asked.pairs and size < 2:
            raise UsageError("pairs of ranks need at least 2 ranks: give --ranks 2 or more")
        found = measured.bench(op, algorithms, size, turns)
        check_place(found, ranks.backend, size, ranks_here(size))

    def work(place: Place) -> None:
        _bench(measured.bench(op, algorithms, place.world.size, turns), place, asked)

    return on_ranks("bench", ranks, output, 4, check, work)


def _bench(asked_for: "Bench", place: Place, asked: _Asked) -> None:
    from steptime.measure.bench import wrong_in_all
    from steptime.measure.place import hosts_of, make_transport
    from steptime.measure.session import measure_links, record, run
    from steptime.measure.table import footer, layout

    transport = make_transport(asked.ranks.backend, registered=asked_for.registered)
    aside = asked.output.json or asked.csv == "-"
    tell = teller(transport.rank, asked.output, aside=aside)
    shown = _style(asked_for, asked)
    printed = layout(shown, asked_for, transport.ranks, transport.library)
    tell("\n".join([*oversubscription(place), *printed.header]))
    hosts = hosts_of(transport)
    session = run(transport, asked_for, hosts, lambda size: tell("\n".join(printed.lines(size))))
    tell(footer(session.rows, session.fits, session.machine.message if session.machine else None))
    found = measure_links(transport, asked_for) if asked.pairs else []
    wrong = wrong_in_all(session.rows)
    if transport.rank == 0:
        where = {**provenance(place, asked.ranks), "library": transport.library}
        run_record = record("bench", asked_for, session, found, where)
        write_measured(place.out, run_record)
        if not wrong:
            _answer(run_record, place.out, asked, tell)
    transport.barrier()  # an error here would end rank 0 before it has written
    if wrong:
        raise SteptimeError(
            f"{wrong} elements of the results are wrong: {place.out / 'run.json'} says of which "
            "size under which algorithm"
        )


def _answer(run: Mapping[str, Any], out: Path, asked: _Asked, tell: Callable[[str], None]) -> None:
    from steptime.report.links import link_lines, write_links

    if pairs := run.get("pairs"):
        write_links(out / "links.html", run)
        tell("\n".join(["", *link_lines(pairs, columns_of_stdout() or 80), ""]))
        tell(f"heat map: {out / 'links.html'}")
    if asked.csv:
        write_text(asked.csv, _csv(run["rows"]))
    if asked.output.json:
        say_json(run)
    else:
        tell(f"run: {out / 'run.json'}\nreport: {out / REPORT}")


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    import csv
    import io

    from steptime.measure.table import flat

    lines = [flat(row) for row in rows]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _style(asked_for: "Bench", asked: _Asked) -> Literal["nccl", "narrow", "osu"]:
    from steptime.measure.table import style_for

    return style_for(asked_for, columns_of_stdout()) if asked.style == "auto" else asked.style
