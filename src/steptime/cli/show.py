"""The verb ``show``: draw collective algorithms, in the terminal or as a page that plays them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from steptime.cli.options import Flat, PrintOptions
from steptime.cli.printing import say
from steptime.cli.schedules import bytes_of, hosts_of
from steptime.collectives.algorithm import DEFAULT_BLOCKS
from steptime.collectives.lookup import find_algorithms
from steptime.collectives.proof import prove
from steptime.collectives.schedule import TRANSFER, Schedule
from steptime.collectives.verification import safe_schedule
from steptime.errors import SteptimeError, UsageError
from steptime.report.collective.exhibit import Exhibit, Link, exhibit
from steptime.report.collective.rounds import costs, print_exhibit
from steptime.units import parse_rate, parse_seconds


def show(
    names: Annotated[str, Parameter(name="NAMES|FILE.py")],
    /,
    *,
    output: Flat[PrintOptions] = PrintOptions(),
    collective: str | None = None,
    ranks: int = 8,
    root: int = 0,
    hosts: int | None = None,
    blocks: int = DEFAULT_BLOCKS,
    size: Annotated[str | None, Parameter(name="--bytes")] = None,
    alpha: str = "5us",
    bandwidth: str = "10GB/s",
    html: Path | None = None,
) -> None:
    """What does it look like, step by step?

    Parameters
    ----------
    names
        Algorithms with commas between them (ring, all_reduce/ring,circulant), or a Python file
        with algorithms of your own. Of a name that several collectives have, the first is shown.
    collective
        Show the algorithms of this collective.
    ranks
        How many ranks take part.
    root
        The root of a broadcast, reduce, scatter or gather.
    hosts
        Hosts that share the ranks in order; default: two.
    blocks
        Into how many blocks a pipeline cuts the vector.
    size
        Size of the vector; default: 1 MiB for each rank.
    alpha
        What every message takes before its first byte arrives.
    bandwidth
        Of each rank's link, in each direction.
    html
        Write a page to this file that plays the algorithms step by step, side by side, rather
        than print their rounds.

    """
    link = Link(parse_seconds(alpha), parse_rate(bandwidth))
    if link.bandwidth <= 0:
        raise UsageError(f"--bandwidth is {bandwidth}: it must be above 0")
    shown = []
    for name in names.split(","):
        found = find_algorithms(name, collective)
        for algorithm in found if name.endswith(".py") else found[:1]:
            schedule = safe_schedule(
                algorithm, ranks, root=root, hosts=hosts_of(ranks, hosts), blocks=blocks
            )
            if name.endswith(".py"):
                _check(schedule, name)
            shown.append(exhibit(algorithm, schedule, bytes_of(ranks, size), link))
    if html:
        _write_page(html, shown)
    _answer(shown, html, output)


def _check(schedule: Schedule, name: str) -> None:
    """Raise SteptimeError when a user's own algorithm is wrong: its picture would deceive."""
    proof = prove(schedule)
    if not proof.ok:
        first = proof.findings[0]
        raise SteptimeError(
            f"the {schedule.collective.name} {schedule.algorithm!r} is wrong for {schedule.ranks} "
            f"ranks: chunk {first.chunk} of rank {first.rank} {first.what}; see steptime verify "
            f"{name} --ranks {schedule.ranks}"
        )


def _write_page(path: Path, shown: Sequence[Exhibit]) -> None:
    from steptime.report.collective.page import write_page

    try:
        write_page(path, shown)
    except OSError as error:
        raise SteptimeError(f"cannot write {path}: {error.strerror}; name another file") from None


def _answer(shown: Sequence[Exhibit], html: Path | None, output: PrintOptions) -> None:
    if output.json:
        say(json.dumps({"verb": "show", "algorithms": [_record(one) for one in shown]}))
        return
    if html:
        say("\n".join([f"{one.title}: {costs(one)}" for one in shown] + [f"page: {html}"]))
        return
    console = output.console()
    with console.capture() as text:
        for one in shown:
            print_exhibit(console, one)
    say(text.get().rstrip("\n"))


def _record(shown: Exhibit) -> dict[str, Any]:
    schedule = shown.schedule
    names = TRANSFER.names or ()
    return {
        "collective": schedule.collective.name,
        "algorithm": schedule.algorithm,
        "ranks": schedule.ranks,
        "root": schedule.root,
        "hosts": schedule.hosts,
        "chunks": schedule.chunks,
        "slots": schedule.slots,
        "bytes": shown.nbytes,
        "source": "computed",
        "alpha_s": shown.link.alpha,
        "bandwidth_Bps": shown.link.bandwidth,
        "time_s": shown.seconds,
        "bytes_sent_per_rank": shown.cost.bytes_sent.tolist(),
        "bytes_reduced_per_rank": shown.cost.bytes_reduced.tolist(),
        "rounds": [
            [dict(zip(names, row, strict=True)) for row in transfers.tolist()]
            for transfers in schedule.rounds()
        ],
    }
