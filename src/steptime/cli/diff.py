"""``diff``: Did the step time change?"""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from steptime.cli.options import Flat, OutputOptions
from steptime.cli.printing import say, say_json, writing
from steptime.errors import UsageError
from steptime.runs import run_folder
from steptime.units import parse_percentage

if TYPE_CHECKING:
    from steptime.api.differences import Difference


def diff(
    *words: Annotated[str, Parameter(name="RUN_A RUN_B")],
    against: str | None = None,
    pairs: int | None = None,
    see: str | None = None,
    within: str | None = None,
    strategy: str | None = None,
    fail_over: str | None = None,
    run_to_run: str | None = None,
    output: Flat[OutputOptions] = OutputOptions(),
) -> int:
    """Did the step time change?

    Tells the ratio of B's step time to A's with its 95 % interval, phase by phase.

    Parameters
    ----------
    words
        Two runs, each the folder of a run, a folder of several, another tool's trace, or several
        with commas between them. With --against, behind --, the command to run: -- train --ranks 2
        --steps 40.
    against
        Build this git revision of steptime in a worktree, as A, and let it and the steptime that
        runs, as B, take turns with the command.
    pairs
        With --against, how often each runs; default: 15, and with --see 60 at most.
    see
        With --against, run until a difference of this much would nearly always be told, as 5%.
    within
        With --see, end with the pair in which this time is over, as 10min.
    strategy
        The one to compare, where the runs have several.
    fail_over
        Exit with 1 where B is different and slower than A by more than this, as 5%.
    run_to_run
        Standard deviation between equal runs, for one run of each alone; default: 2.5%.

    """
    limit = None if fail_over is None else parse_percentage(fail_over, "fail-over")
    if against is not None:
        _refuse(("run-to-run", run_to_run), need="one run of each")
        out = output.out or run_folder.default_path("diff", datetime.now())
        turns = {"pairs": pairs, "see": see, "within": within}
        return _answer(_taken(against, words, turns, strategy, out, output), limit, output, out)
    _refuse(("pairs", pairs), ("see", see), ("within", within), need="--against")
    found = _compared(words, strategy, run_to_run)
    if output.out is None:
        return _answer(found, limit, output)
    with run_folder.created(output.out) as out:
        return _answer(found.in_folder(out), limit, output, out)


def _refuse(*given: tuple[str, Any], need: str) -> None:
    for name, value in given:
        if value is not None:
            raise UsageError(f"--{name} is about {need}, and there is none: leave it out")


def _compared(words: tuple[str, ...], strategy: str | None, run_to_run: str | None) -> "Difference":
    from steptime.api.differences import diff as compare

    if len(words) != 2:
        raise UsageError(
            f"diff compares two runs and got {len(words)}: write steptime diff RUN_A RUN_B, or "
            "--against REVISION -- COMMAND"
        )
    return compare(*words, strategy=strategy, run_to_run=run_to_run)


def _taken(
    revision: str,
    command: tuple[str, ...],
    turns: dict[str, Any],
    strategy: str | None,
    out: Path,
    output: OutputOptions,
) -> "Difference":
    """What turns showed, with a bar of them; SIGTERM leaves no more behind than Ctrl-C does."""
    from steptime.api.differences import diff_against
    from steptime.study.diff_against import stoppable

    with writing(out), stoppable(), output.progress(0) as progress:
        bar = progress.add_task("", total=None)

        def tell(what: str, most: int) -> None:
            first = what.startswith("A 1 ")
            progress.update(bar, description=what, total=most, advance=not first)

        return diff_against(revision, *command, **turns, strategy=strategy, out=out, tell=tell)


def _answer(
    found: "Difference", limit: float | None, output: OutputOptions, out: Path | None = None
) -> int:
    """Write its files to ``out``, where a folder was asked for, and print the answer."""
    if limit is not None:
        found = found.held_against(limit)
    if out is not None:
        with writing(out):
            found.write(out)
    if output.json:
        say_json(found.record)
    else:
        told = output.rendered(found.print)
        say(told + (f"\nrun: {out}\nreport: {out / 'report.html'}" if out else ""))
    return int(limit is not None and found.slower_by_more(limit))
