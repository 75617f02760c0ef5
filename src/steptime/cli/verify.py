"""``verify``: Is this collective algorithm right for every number of ranks?"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from steptime import files
from steptime.cli.options import Flat, PrintOptions
from steptime.cli.printing import say, say_json, writing
from steptime.errors import UsageError

if TYPE_CHECKING:
    from steptime.collectives.algorithm import Algorithm

_FORMATS = (".xml", ".goal")


def verify(
    name: Annotated[str, Parameter(name="NAME|FILE.py|FILE.xml")] = "all",
    /,
    *,
    output: Flat[PrintOptions] = PrintOptions(),
    collective: str | None = None,
    ranks: str = "1-33",
    size: Annotated[str | None, Parameter(name="--bytes")] = None,
    hosts: int | None = None,
    export: Path | None = None,
) -> int:
    """Is this algorithm right for every number of ranks?

    Parameters
    ----------
    name
        An algorithm (ring, all_reduce/ring), a collective, a Python file with algorithms of
        your own, which is run, or an MSCCL program; all: every one that is shipped.
    collective
        Verify the algorithms of this collective alone.
    ranks
        Numbers of ranks: 8, or 2,4,8, or 1-33.
    size
        Size of the vector whose bytes are told; default: 1 MiB for each rank.
    hosts
        Hosts that share the ranks in order; default: two.
    export
        Write the schedule of one algorithm for one number of ranks to this file, when it is
        right: FILE.xml for MSCCL, FILE.goal for LogGOPSim.

    """
    from steptime.api.arguments import ranks_of
    from steptime.api.proofs import verify as prove
    from steptime.collectives.lookup import find_algorithms

    found, counts = find_algorithms(name, collective), ranks_of(ranks)
    _check_export(export, found, counts)
    with output.tracking() as track:
        answer = prove(
            name,
            collective=collective,
            ranks=ranks,
            nbytes=size,
            hosts=hosts,
            track=track,
        )
    if export and answer.ok:
        _export(export, found[0], counts[0], size, hosts)
    if output.json:
        say_json({"verb": "verify", "ok": answer.ok, "results": answer.rows})
    else:
        say(output.rendered(answer.print))
    return 0 if answer.ok else 1


def _check_export(path: Path | None, found: Sequence["Algorithm"], counts: Sequence[int]) -> None:
    if path is None:
        return
    if path.suffix not in _FORMATS:
        raise UsageError(f"--export {path}: name a file that ends in .xml (MSCCL) or .goal")
    if len(found) > 1 or len(counts) > 1:
        raise UsageError(
            f"--export writes one schedule, not {len(found) * len(counts)}: name one algorithm, "
            "such as all_reduce/ring, and one number of --ranks"
        )


def _export(
    path: Path, algorithm: "Algorithm", ranks: int, size: str | None, hosts: int | None
) -> None:
    from steptime.api.arguments import bytes_of, hosts_of
    from steptime.collectives.export import goal_text, msccl_xml
    from steptime.collectives.verification import safe_schedule

    schedule = safe_schedule(algorithm, ranks, hosts=hosts_of(ranks, hosts))
    text = (
        msccl_xml(schedule) if path.suffix == ".xml" else goal_text(schedule, bytes_of(ranks, size))
    )
    with writing(path):
        files.write_atomic(path, text.encode())
