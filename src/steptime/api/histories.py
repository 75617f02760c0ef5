"""``steptime.history``: how a figure changed over revisions, from a folder of runs."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steptime.api.cells import frame_of_rows, html_of, text_of
from steptime.report.history_lines import print_history
from steptime.report.history_page import write_history
from steptime.runs import run_folder
from steptime.study.history import Series
from steptime.study.history import history as read

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, eq=False, repr=False)
class HistoryResult:
    """What became of a figure: a series for the runs that did the same work in the same place.

    ``record`` is what ``--json`` has: with the runs that lack the figure, and those that are
    damaged.
    """

    series: Sequence[Series]
    record: Mapping[str, Any]

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each run of each series: what it did, when, and its figure by its name."""
        return [self._row(one, at) for one in self.series for at in range(len(one.points))]

    def _row(self, series: Series, at: int) -> dict[str, Any]:
        about, point = asdict(series), asdict(series.points[at])
        about.pop("points")
        value = {self.record["figure"]: point.pop("value")}
        return {**about.pop("apart"), **about, **point, **value}

    def to_pandas(self) -> Any:
        """A DataFrame of ``rows``; UsageError where there is no pandas."""
        return frame_of_rows(self.rows)

    def report(self, path: str | Path) -> Path:
        """Write its page to a file: one of HTML that needs no network."""
        write_history(Path(path), self.record)
        return Path(path)

    def print(self, console: "Console") -> None:
        """Print a block for each series, with a line for each run."""
        print_history(console, self.record)

    def __repr__(self) -> str:
        return text_of(self.print)

    def _repr_html_(self) -> str:
        return html_of(self.print)


def history(folder: str | Path = "runs", figure: str = "step_time_s") -> HistoryResult:
    """How did a figure change over revisions? List the runs below a folder by time and revision.

    Runs of the same work in the same place stand together. ``figure``: step_time_s, tokens_per_s,
    compute_s, exposed_comm_s, update_s or other_s; of what is exposed transfer_s, bubble_s,
    imbalance_s or dependency_s.

    Raises UsageError where there is no such folder or figure, or no run in it.

    >>> for name, batch in ("first", 8), ("second", 8), ("larger", 16):
    ...     run = st.simulate("gpt2-nano", "laptop", ranks=2, strategy="replicated", batch=batch)
    ...     _ = run.save(f"kept/{name}")
    >>> past = st.history("kept")
    >>> [len(one.points) for one in past.series], past.rows[-1]["run"]
    ([2, 1], 'larger')
    """
    found = read(Path(folder), figure)
    record = found.record() | {"environment": run_folder.environment()}
    return HistoryResult(found.series, record)
