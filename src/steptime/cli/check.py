"""``check``: Why does my job hang, and what is wrong with it?"""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from steptime.cli.options import Flat, OutputOptions
from steptime.cli.printing import json_alone, say, say_json, writing

if TYPE_CHECKING:
    from steptime.check.finding import Finding


def check(
    target: Annotated[Path, Parameter(name="SCRIPT")],
    /,
    *arguments: Annotated[str, Parameter(name="ARGUMENTS", allow_leading_hyphen=True)],
    ranks: int | None = None,
    fail_on: str | None = None,
    output: Flat[OutputOptions] = OutputOptions(),
) -> int:
    """Why does my job hang, and what is wrong with it?

    Runs a script as it is and watches its ranks from outside: a job that stands still is ended,
    and told with the lines of every rank and how to mend it. Start it alone, with --ranks, or
    under a launcher, as torchrun --nproc-per-node 4 -m steptime check train.py. The folder of a
    recorded run is judged as it ended, one of programs or Chakra traces without running.

    Parameters
    ----------
    target
        The Python script; or the folder of a run or a program.
    arguments
        The script's own arguments: all that follows it.
    ranks
        Start it as so many ranks of this host.
    fail_on
        The kinds of findings that make the exit code 1, with commas: deadlock, mismatch, missing,
        lost, straggler, race, drift, died, slow, data; default: all but slow and straggler, and
        data, which is a remark unless it is named.

    """
    from steptime.api.checking import check as checked
    from steptime.check.supervise import await_told, note_told
    from steptime.runs.checked import check_json

    begun = time.time()
    kinds = [word.strip() for word in fail_on.split(",")] if fail_on is not None else None
    with json_alone(output.json):
        found = checked(target, *arguments, ranks=ranks, out=output.out, fail_on=kinds, tell=_tell)
    run = Path(found.record.run)
    if not found.told:
        if found.exit_code:
            await_told(run, begun)
        return found.exit_code
    out = output.out or (None if target.is_dir() else run)
    if out is not None:
        with writing(out):
            found.save(out)
    if output.json:
        say_json(check_json(found.record))
    elif (said := found.findings or found.remarks) or not output.quiet:
        page = f"\n\nreport: {out / 'report.html'}" if out and said else ""
        say(output.rendered(found.print) + page)
    if not target.is_dir():
        note_told(run)
    return found.exit_code


def _tell(finding: "Finding") -> None:
    """Say on stderr which rank that still works, or which host, the others wait for."""
    print(f"steptime: {finding.what}", file=sys.stderr, flush=True)
