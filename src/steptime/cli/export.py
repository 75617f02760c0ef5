"""``export``: Give this run to my tools."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from cyclopts import Parameter

from steptime.cli.options import Flat, PrintOptions
from steptime.cli.printing import folded, say, say_json, writing
from steptime.study.exports import formats

if TYPE_CHECKING:
    Format: TypeAlias = str
else:
    Format = Literal[tuple(formats())]

_FORMATS = "; ".join(f"{name}: {what}" for name, what in formats().items())

_SHOWN = 6
"""So many files are listed one by one."""

_PATIENCE_S = 2.0


def export(
    run: Annotated[Path, Parameter(name="RUN")],
    /,
    *,
    to: Annotated[Format, Parameter(help=f"{_FORMATS}.")],
    out: Path | None = None,
    strategy: str | None = None,
    algorithm: str = "",
    per_rank: bool = False,
    printed: Flat[PrintOptions] = PrintOptions(),
) -> None:
    """Give this run to my tools.

    Parameters
    ----------
    run
        The folder of a run of train, compare, simulate, proxy, record or replay; for weights of a
        training, or one of its checkpoints.
    out
        Folder, or a file that ends as the format does; default: the folder export in RUN.
    strategy
        The one whose program is written to chakra, goal or atlahs; default: each that ran.
    algorithm
        Algorithms of collectives for goal and atlahs, as all_reduce=ring,broadcast=binomial;
        default: those of the run where it names them, else rings and binomial trees.
    per_rank
        A Chrome trace a rank, as HTA reads them.

    """
    from steptime.study.export import export as write
    from steptime.study.export import export_named
    from steptime.study.options import HowOptions

    algorithms = HowOptions(algorithm=algorithm).algorithms()
    with writing(out or run), _told(printed) as tell:
        done = write(
            run,
            to,
            out,
            strategy=strategy,
            algorithms=algorithms,
            per_rank=per_rank,
            tell=tell,
        )
    record = done.record(run)
    if printed.json:
        say_json(record)
        return
    say("\n".join([*_lines(record, printed.console().width), export_named(to).opened_by]))


@contextmanager
def _told(printed: PrintOptions) -> Iterator[Callable[[int, int], None]]:
    """What is told how much of how much is done: a bar on stderr once that takes long."""
    begin = time.monotonic()
    with ExitStack() as stack:
        shown: list[Any] = []

        def tell(done: int, whole: int) -> None:
            if not shown and time.monotonic() - begin > _PATIENCE_S:
                progress = stack.enter_context(printed.progress(0))
                shown.extend((progress, progress.add_task("export")))
            if shown:
                shown[0].update(shown[1], completed=done, total=whole)

        yield tell


def _lines(record: dict[str, Any], columns: int) -> Iterator[str]:
    from steptime.units import format_bytes

    if "intervals" in record:
        yield (
            f"{record['to']}: {record['intervals']:,} intervals and {record['messages']:,} "
            f"messages of {record['ranks']:,} ranks, {record['source']}"
        )
    for program in record.get("programs", ()):
        yield folded(f"{record['to']}: {_program_line(program)}", columns)
    if lacking := record.get("not_in_astra_sim"):
        kinds = " or ".join(lacking)
        yield folded(
            f"ASTRA-sim carries out no {kinds}: it stops, or takes no time for it", columns
        )
    files = record["files"]
    for file in files[:_SHOWN]:
        yield f"  {file['path']}  {format_bytes(file['bytes'])}"
    if len(files) > _SHOWN:
        rest = format_bytes(sum(file["bytes"] for file in files[_SHOWN:]))
        yield f"  and {len(files) - _SHOWN:,} more of {rest}"
    yield from (folded(line, columns) for line in _clock_lines(record))


def _program_line(program: Any) -> str:
    if isinstance(program, str):
        return program
    by = ", ".join(f"{kind} by {name}" for kind, name in program["algorithms"].items())
    return f"{program['name']}, {program['messages']:,} messages{': ' * bool(by)}{by}"


def _clock_lines(record: dict[str, Any]) -> Iterator[str]:
    """How far the clocks of several hosts can be trusted."""
    from steptime.units import format_seconds

    clocks = record.get("clock", [])
    if len(clocks) > 1:
        error = format_seconds(max(clock["error_s"] for clock in clocks))
        yield f"clocks of {len(clocks)} hosts put on rank 0's, each at most {error} wrong, measured"
    elif clocks:
        yield "clocks: one host and one clock"
    if record.get("early_messages"):
        yield (
            f"{record['early_messages']:,} messages arrive before they were sent, by more than "
            "the clocks may be wrong: do not trust times between hosts"
        )
