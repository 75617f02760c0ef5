"""``diff``: Did the step time change?"""

import os
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from steptime.cli.options import Flat, OutputOptions
from steptime.cli.printing import say, say_json, writing
from steptime.errors import UsageError
from steptime.runs import run_folder
from steptime.turns import limit_of
from steptime.units import parse_percentage

if TYPE_CHECKING:
    from steptime.study.diff import Diff

_PAIRS = 15


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
    floor = None if run_to_run is None else parse_percentage(run_to_run, "run-to-run")
    if against is None:
        _refuse(("pairs", pairs), ("see", see), ("within", within), need="--against")
        found = _two(words, strategy, floor)
        if output.out is None:
            return _answer(found, limit, output, {})
        with run_folder.created(output.out) as out:
            return _answer(found, limit, output, {"run": str(out)}, out)
    _refuse(("run-to-run", run_to_run), need="one run of each")
    limit_s = limit_of(within, see)
    from steptime.ratios import MOST_PAIRS

    part = None if see is None else parse_percentage(see, "see")
    most = pairs if pairs is not None else _PAIRS if part is None else MOST_PAIRS
    return _against(against, words, most, part, limit_s, strategy, limit, output)


def _refuse(*given: tuple[str, Any], need: str) -> None:
    for name, value in given:
        if value is not None:
            raise UsageError(f"--{name} is about {need}, and there is none: leave it out")


def _two(words: tuple[str, ...], strategy: str | None, run_to_run: float | None) -> "Diff":
    from steptime.ratios import RUN_TO_RUN
    from steptime.study.diff import diff as compare
    from steptime.study.diff_runs import read_side

    if len(words) != 2:
        raise UsageError(
            f"diff compares two runs and got {len(words)}: write steptime diff RUN_A RUN_B, or "
            "--against REVISION -- COMMAND"
        )
    a, b = (read_side(word, strategy) for word in words)
    if len(a) + len(b) > 2:
        _refuse(("run-to-run", run_to_run), need="one run of each")
    return compare(a, b, run_to_run=RUN_TO_RUN if run_to_run is None else run_to_run)


def _against(
    revision: str,
    words: tuple[str, ...],
    pairs: int,
    see: float | None,
    limit_s: float,
    strategy: str | None,
    limit: float | None,
    output: OutputOptions,
) -> int:
    from steptime.ratios import LEAST_PAIRS
    from steptime.study.diff import compared
    from steptime.study.diff_against import (
        check_command,
        checkout,
        resolve,
        stoppable,
        take_turns,
        worktree,
    )
    from steptime.study.diff_runs import read_run
    from steptime.world import detect

    if detect(os.environ):
        raise UsageError("--against starts runs of its own: run it without a launcher")
    if pairs < 2:
        raise UsageError(f"--pairs is {pairs}: it takes 2 or more to see how runs vary")
    if see == 0:
        raise UsageError("--see is 0%, which no number of runs would show: write more, as 5%")
    if see is not None and pairs < LEAST_PAIRS:
        raise UsageError(
            f"--pairs is {pairs}, and --see takes {LEAST_PAIRS} to know how many it needs: give as "
            "many or more, or leave --pairs out"
        )
    check_command(words)
    tree = checkout()
    commit = resolve(tree, revision, words[0])
    folder = run_folder.created(output.out or run_folder.default_path("diff", datetime.now()))
    with (
        folder as out,
        stoppable(),
        worktree(tree, commit) as other,
        output.progress(0) as progress,
    ):
        bar = progress.add_task("", total=2 * pairs)

        def tell(what: str) -> None:
            progress.update(bar, description=what, advance=not what.startswith("A 1 "))

        sides = {"a": other, "b": tree.root / tree.source}
        with writing(out):
            folders = take_turns(sides, words, pairs, out, tell)
            runs = ((read_run(of["a"], strategy), read_run(of["b"], strategy)) for of in folders)
            found = compared(runs, see, limit_s)
    facts = {"run": str(out), "against": revision, "commit": commit, "command": list(words)}
    asked = {} if see is None else {"see": see}
    return _answer(found, limit, output, facts | asked, out)


def _answer(
    found: "Diff",
    limit: float | None,
    output: OutputOptions,
    facts: dict[str, Any],
    out: Path | None = None,
) -> int:
    from steptime.report.diff_lines import print_diff
    from steptime.report.diff_page import write_diff

    failed = limit is not None and found.slower_by_more(limit)
    record = found.record() | facts
    if limit is not None:
        record |= {"fail_over": limit, "failed": failed}
    if out is not None:
        with writing(out):
            left = record | {"environment": run_folder.environment()}
            run_folder.write_record(out, left)
            write_diff(out / "report.html", left)
    if output.json:
        say_json(record)
    else:
        told = output.rendered(lambda console: print_diff(console, record))
        say(told + (f"\nrun: {out}\nreport: {out / 'report.html'}" if out else ""))
    return int(failed)
