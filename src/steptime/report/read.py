"""Reading runs back for a page: what there is, and what is missing in words."""

from collections.abc import Sequence
from pathlib import Path

from steptime.errors import UsageError
from steptime.report.subject import Run
from steptime.runs.run_folder import read_record
from steptime.timeline import read_chrome_trace

TRACE = "trace.json.gz"
_NEEDED = ("model",)


def read_runs(folders: Sequence[Path]) -> list[Run]:
    """The runs in some folders, each with a name of its own.

    A timeline that cannot be read is left out, and the run says so. Raises UsageError where a
    run.json cannot be read, or is of no run that a page could show.
    """
    names = _names(folders)
    return [_read(folder, name) for folder, name in zip(folders, names, strict=True)]


def _read(folder: Path, name: str) -> Run:
    record = read_record(folder)
    record.setdefault("run", str(folder))
    for field in _NEEDED:
        if field not in record:
            raise UsageError(
                f"{folder} is a run of {record['verb']}, which has no {field}: a report is of runs "
                "of compare, train, simulate and proxy"
            )
    try:
        return Run(name, record, read_chrome_trace(folder / TRACE))
    except UsageError as error:
        return Run(name, record, None, str(error))


def _names(folders: Sequence[Path]) -> list[str]:
    """The folders' own names, or as much of their paths as tells them apart.

    Raises UsageError where one is given twice.
    """
    paths = [folder.resolve() for folder in folders]
    for at, path in enumerate(paths):
        if path in paths[:at]:
            raise UsageError(f"{folders[at]} is given twice: name each run once")
    parts = 1
    while True:
        names = ["/".join(path.parts[-parts:]) for path in paths]
        if len(set(names)) == len(names):
            return names
        parts += 1
