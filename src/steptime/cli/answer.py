"""Leaving a run's files and printing its answer."""

import json
from collections.abc import Mapping
from typing import Any

from steptime import rundir
from steptime.cli.options import OutputOptions, RankOptions
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

    Raises SteptimeError when the ranks ended with different parameters.
    """
    run = {
        **record,
        "run": str(place.out),
        "ranks": place.world.size,
        "threads": place.threads,
        "backend": ranks.backend,
        "launcher": place.world.launcher,
    }
    rundir.write_json(place.out / "run.json", run)
    write_chrome_trace(place.out / "trace.json.gz", timeline)
    write_report(place.out / "report.html", run, timeline)
    console = output.console()
    if output.json:
        print(json.dumps(run))
    else:
        print_run(console, run)
        console.print(f"\nreport: {place.out / 'report.html'}", soft_wrap=True)
    for name, entry in run["strategies"].items():
        if len(set(entry["parameter_hash"])) > 1:
            raise SteptimeError(
                f"after training under {name} the parameters differ between ranks: "
                f"{place.out / 'run.json'} holds their hashes; please report this"
            )
