"""``report``: Show me."""

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from steptime.cli.options import Flat, PrintOptions
from steptime.cli.printing import say, writing
from steptime.errors import UsageError

_PAGE = "report.html"


def report(
    runs: Annotated[list[Path], Parameter(name="RUN")],
    /,
    *,
    output: Flat[PrintOptions] = PrintOptions(),
    out: Path | None = None,
) -> None:
    """Show me.

    Makes the page of a run again from its run.json and trace.json.gz, or one page of several runs.

    Parameters
    ----------
    runs
        Folders of runs of compare, train, simulate or proxy.
    out
        The file to write; default: report.html in the folder of the run. Several runs need one.

    """
    from steptime.report.page import write_page
    from steptime.report.read import read_runs

    if len(runs) > 1 and out is None:
        raise UsageError(
            f"one page of {len(runs)} runs belongs into none of their folders: say where with "
            "--out FILE"
        )
    path = out or runs[0] / _PAGE
    found = read_runs(runs)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_page(path, found)
    missing = [f"{one.name}: {one.missing}" for one in found if one.missing]
    if output.json:
        record = {"verb": "report", "page": str(path), "runs": [str(run) for run in runs]}
        say(json.dumps(record | {"incomplete": missing}))
        return
    for sentence in missing:
        say(f"incomplete: {sentence}")
    say(f"report: {path}")
