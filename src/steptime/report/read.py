"""Reading runs back for a page: what there is, and what is missing in words."""

from collections.abc import Sequence
from pathlib import Path

from steptime.errors import UsageError
from steptime.report.subject import Run
from steptime.runs.proxy_step import with_ranks
from steptime.runs.record import run_record, took_steps
from steptime.runs.run_folder import TRACE, read_record
from steptime.timeline import read_chrome_trace


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """The runs in some folders, each with a name of its own.

    A timeline that cannot be read is left out, and the run says so. Raises UsageError where a
    run.json cannot be read, or is of no run that a page could show.
    """
    names = _names(folders)
    return [_read(folder, name) for folder, name in zip(folders, names, strict=True)]


def _read(folder: Path, name: str) -> Run:
    raw = read_record(folder)
    if not took_steps(raw):
        what = "a plan that nobody ran" if raw.get("dry_run") else f"a run of {raw['verb']}"
        raise UsageError(
            f"{folder} is {what}, which took no step: a report is of runs of compare, train, "
            "simulate and proxy"
        )
    record = run_record({"run": str(folder)} | raw, name)
    try:
        timeline = read_chrome_trace(folder / TRACE)
    except UsageError as error:
        return Run(name, record, None, str(error))
    return Run(name, with_ranks(record, timeline), timeline)


def _names(folders: Sequence[Path]) -> list[str]:
    """The folders' own names, or as much of their paths as tells them apart.

    Raises UsageError where one is given twice.
    """
    # What is not there, such as a link to itself, has no path to resolve.
    paths = [one.resolve() if one.exists() else one.absolute() for one in folders]
    for at, path in enumerate(paths):
        if path in paths[:at]:
            raise UsageError(f"{folders[at]} is given twice: name each run once")
    parts = 1
    while True:
        names = ["/".join(path.parts[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            return names
        parts += 1
