"""Leaving a run's files and printing its answer."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from steptime.cli.options import OutputOptions, RankOptions
from steptime.cli.printing import say
from steptime.cli.ranks import Place
from steptime.errors import SteptimeError
from steptime.program.stored import StoredProgram, write_programs
from steptime.report import write_report
from steptime.report.flows import print_flows
from steptime.report.terminal import print_run
from steptime.runs import run_folder
from steptime.timeline import Timeline, write_chrome_trace


def answer(
    record: Mapping[str, Any],
    timeline: Timeline,
    place: Place,
    ranks: RankOptions,
    output: OutputOptions,
    programs: Sequence[StoredProgram] = (),
) -> None:
    """Leave the files of a live run and print its answer, as ``leave`` does."""
    run = {
        **record,
        "run": str(place.out),
        "ranks": place.world.size,
        "threads": place.threads,
        "backend": ranks.backend,
        "launcher": place.world.launcher,
    }
    leave(run, timeline, place.out, output, programs)


def leave(
    run: Mapping[str, Any],
    timeline: Timeline,
    out: Path,
    output: OutputOptions,
    programs: Sequence[StoredProgram] = (),
) -> None:
    """Write run.json, trace.json.gz, its programs and report.html, then print the answer.

    Raises SteptimeError when that cannot be, or the ranks ended with different parameters.
    """
    _write(run, timeline, out, programs)
    hashes = {name: set(entry["parameter_hash"]) for name, entry in run["strategies"].items()}
    diverged = [name for name, different in hashes.items() if len(different) > 1]
    if not output.json:
        told = output.rendered(lambda console: print_run(console, run))
        say(f"{told}\n\nreport: {out / 'report.html'}")
    elif not diverged:
        say(json.dumps(run))
    if diverged:
        raise SteptimeError(
            f"after training under {diverged[0]} the parameters differ between ranks: "
            f"{out / 'run.json'} holds their hashes; please report this"
        )


def leave_flows(
    run: Mapping[str, Any], timeline: Timeline, out: Path, output: OutputOptions
) -> None:
    """Write run.json and trace.json.gz of simulated flows, then print when each is done.

    Raises SteptimeError when that cannot be.
    """
    with _writing(out):
        run_folder.write_record(out, run)
        write_chrome_trace(out / "trace.json.gz", timeline)
    if output.json:
        say(json.dumps(run))
        return
    say(f"{output.rendered(lambda console: print_flows(console, run))}\n\nrun: {out}")


def _write(
    run: Mapping[str, Any], timeline: Timeline, out: Path, programs: Sequence[StoredProgram]
) -> None:
    with _writing(out):
        write_programs(out, programs)
        run_folder.write_record(out, run)
        write_chrome_trace(out / "trace.json.gz", timeline)
        write_report(out / "report.html", run, timeline)


@contextmanager
def _writing(out: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SteptimeError(
            f"cannot write the run to {out}: {error.strerror}; choose another folder with --out"
        ) from None
