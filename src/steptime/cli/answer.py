"""Leaving a run's files and printing its answer."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steptime import rundir
from steptime.cli.options import OutputOptions, RankOptions
from steptime.cli.printing import say
from steptime.cli.ranks import Place
from steptime.errors import SteptimeError
from steptime.report import write_report
from steptime.report.terminal import print_run
from steptime.timeline import Timeline, write_chrome_trace


def answer(
    record: Mapping[str, Any],
    timeline: Timeline,
    place: Place,
    ranks: RankOptions,
    output: OutputOptions,
) -> None:
    """Write run.json, trace.json.gz and report.html, then print the answer.

    Raises SteptimeError when that cannot be, or the ranks ended with different parameters.
    """
    run = {
        **record,
        "run": str(place.out),
        "ranks": place.world.size,
        "threads": place.threads,
        "backend": ranks.backend,
        "launcher": place.world.launcher,
    }
    _write(run, timeline, place.out)
    hashes = {name: set(entry["parameter_hash"]) for name, entry in run["strategies"].items()}
    diverged = [name for name, different in hashes.items() if len(different) > 1]
    if not output.json:
        console = output.console()
        with console.capture() as table:
            print_run(console, run)
        say(f"{table.get()}\nreport: {place.out / 'report.html'}")
    elif not diverged:
        say(json.dumps(run))
    if diverged:
        raise SteptimeError(
            f"after training under {diverged[0]} the parameters differ between ranks: "
            f"{place.out / 'run.json'} holds their hashes; please report this"
        )


def _write(run: Mapping[str, Any], timeline: Timeline, out: Path) -> None:
    try:
        rundir.write_json(out / "run.json", run)
        write_chrome_trace(out / "trace.json.gz", timeline)
        write_report(out / "report.html", run, timeline)
    except OSError as error:
        raise SteptimeError(
            f"cannot write the run to {out}: {error.strerror}; choose another folder with --out"
        ) from None
