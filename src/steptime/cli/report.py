"""``report``: Show me."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from steptime.cli.options import Flat, PrintOptions
from steptime.cli.printing import say, say_json, writing
from steptime.errors import UsageError

if TYPE_CHECKING:
    from steptime.report.subject import Run

_PAGE = "report.html"


def report(
    runs: Annotated[list[Path], Parameter(name="RUN|TRACE")],
    /,
    *,
    output: Flat[PrintOptions] = PrintOptions(),
    out: Path | None = None,
    unpickle: bool = False,
) -> None:
    """Show me.

    Makes the page of a run again from its run.json and trace.json.gz, or one page of several runs.
    Of a trace that another tool wrote it makes a run, in runs/report-TIME, and prints its answer:
    of torch.profiler, the flight recorder, Nsight Systems' SQLite, or Chrome's trace events.

    Parameters
    ----------
    runs
        Folders of runs of compare, train, simulate, proxy or record, or one of bench, tune, diff or
        check; or a trace, a file or a folder with a file of each rank. Several files are the ranks
        of one trace.
    out
        The file to write; default: report.html in the folder of the run. Several runs need one.
    unpickle
        Read pickled dumps of the flight recorder too; nothing but plain values is made of them.

    """
    from steptime.record.traces.opening import may_be_trace

    traces = [one for one in runs if may_be_trace(one)]
    files = [one for one in traces if one.is_file()]
    together = [*([files] if files else []), *([one] for one in traces if one not in files)]
    folders = [one for one in runs if one not in traces]
    if len(together) == 1 and not folders and out is None:
        _report_trace(together[0], output, unpickle=unpickle)
        return
    if len(together) + len(folders) > 1 and out is None:
        raise UsageError(
            f"one page of {len(together) + len(folders)} runs belongs into none of their folders: "
            "say where with --out FILE"
        )
    page = out or runs[0] / _PAGE
    if len(folders) == 1 and not together and _report_record(folders[0], page, output):
        return
    _report(folders, together, page, output, unpickle=unpickle)


def _report_record(folder: Path, path: Path, output: PrintOptions) -> bool:
    """Make the page of a run that took no steps again; False where its verb leaves none."""
    from steptime.files import reading
    from steptime.report.record_pages import PAGES
    from steptime.runs.run_folder import RECORD, read_record

    if not (folder / RECORD).exists():
        return False
    raw = read_record(folder)
    write = PAGES.get(str(raw["verb"]))
    if write is None:
        return False
    with writing(path), reading(folder / RECORD, "record of a run", "run steptime again"):
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, raw)
    if output.json:
        say_json({"verb": "report", "page": str(path), "runs": [str(folder)], "incomplete": []})
    else:
        say(f"report: {path}")
    return True


def _report_trace(paths: Sequence[Path], output: PrintOptions, *, unpickle: bool) -> None:
    """Make a run of a trace, in a folder of its own, and print what it found."""
    from steptime.api.results import traced_run
    from steptime.runs import run_folder
    from steptime.runs.record import to_json

    run = traced_run(paths, unpickle=unpickle)
    path = run_folder.default_path("report", datetime.now())
    with run_folder.created(path) as folder, writing(folder):
        run = run.written_to(folder)
    if output.json:
        page = {"page": str(folder / _PAGE), "runs": [str(path) for path in paths]}
        say_json(to_json(run.record) | {"verb": "report", "incomplete": []} | page)
        return
    say(f"{output.rendered(run.print)}\n\nreport: {folder / _PAGE}")


def _report(
    folders: Sequence[Path],
    traces: Sequence[Sequence[Path]],
    path: Path,
    output: PrintOptions,
    *,
    unpickle: bool,
) -> None:
    """Make a page of some runs."""
    from steptime.api.results import complete
    from steptime.report.page import write_page
    from steptime.report.read import read_runs

    for run in folders:
        with writing(run):
            complete(run)
    found = [*read_runs(folders), *(_traced(paths, unpickle=unpickle) for paths in traces)]
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_page(path, found)
    missing = [f"{one.name}: {one.missing}" for one in found if one.missing]
    if output.json:
        named = [*map(str, folders), *(str(one) for paths in traces for one in paths)]
        record = {"verb": "report", "page": str(path), "runs": named}
        say_json(record | {"incomplete": missing})
        return
    for sentence in missing:
        say(f"incomplete: {sentence}")
    say(f"report: {path}")


def _traced(paths: Sequence[Path], *, unpickle: bool) -> "Run":
    """A trace as a run of a page, which has its name."""
    from steptime.api.results import traced_run
    from steptime.report.subject import Run

    run = traced_run(paths, unpickle=unpickle)
    return Run(run.record.fastest, run.record, run.timeline)
