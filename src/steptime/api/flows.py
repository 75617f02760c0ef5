"""``steptime.flows``: any traffic on a cluster, and when it has arrived."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steptime.api.cells import frame_of_rows, html_of, text_of
from steptime.api.pictures import cluster_of
from steptime.cluster import Cluster
from steptime.cluster.what_if import parse_what_if
from steptime.cluster.what_if import what_if as changed_by
from steptime.report.flows import print_flows
from steptime.runs import run_folder
from steptime.study.flows import Flow, listed_flows, read_flows, simulate_flows
from steptime.timeline import Timeline, write_chrome_trace

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, eq=False, repr=False)
class FlowsResult:
    """When each of some flows is done: its ``record``, as run.json has it, and its timeline."""

    record: Mapping[str, Any]
    timeline: Timeline

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row for each flow; with a what-if it has ``what_if_finish_s``."""
        rows = [dict(flow) for flow in self.record["flows"]]
        changed = self.record["what_if"]["flows"] if "what_if" in self.record else ()
        for row, other in zip(rows, changed, strict=False):
            row["what_if_finish_s"] = other["finish_s"]
        return rows

    @property
    def last_s(self) -> float:
        """When all are done, in seconds."""
        return max(float(flow["finish_s"]) for flow in self.record["flows"])

    def to_pandas(self) -> Any:
        """A DataFrame of ``rows``; UsageError where there is no pandas."""
        return frame_of_rows(self.rows)

    def in_folder(self, folder: Path) -> "FlowsResult":
        """The same, whose record says that it lies in this folder."""
        return replace(self, record={**self.record, "run": str(folder)})

    def write(self, out: Path) -> None:
        """Write run.json and trace.json.gz to a folder that is there; OSError where that fails."""
        run_folder.write_record(out, self.record)
        write_chrome_trace(out / run_folder.TRACE, self.timeline)

    def save(self, folder: str | Path) -> Path:
        """Write a folder of its own: run.json and trace.json.gz."""
        out = run_folder.create(Path(folder))
        self.in_folder(out).write(out)
        return out

    def print(self, console: "Console") -> None:
        """Print when each is done, of many the first, and which is the last."""
        print_flows(console, self.record)

    def __repr__(self) -> str:
        return text_of(self.print)

    def _repr_html_(self) -> str:
        return html_of(self.print)


def flows(
    traffic: str | Path | Iterable[Flow],
    cluster: Cluster | str | Path,
    *,
    what_if: str | None = None,
) -> FlowsResult:
    """Simulate any traffic on a cluster: when each flow is done, sharing links with the others.

    ``traffic``: tuples of source, destination and bytes, and the seconds at which a flow starts if
    that is not 0; or a CSV file whose first line is ``src,dst,bytes,start_s``. Sources and
    destinations are devices of the cluster, and bytes may be text with a unit. A flow waits the sum
    of its path's latencies; then its bytes flow at their max-min fair rate. ``what_if``: the same
    once more on a changed cluster, as bandwidth=2x,latency=0.

    Raises UsageError naming the line or the flow that is wrong.

    >>> both = st.flows([(1, 0, "100MB"), (2, 0, "100MB")], "office-10gbe")
    >>> alone = st.flows([(1, 0, "100MB")], "office-10gbe")
    >>> round(both.last_s / alone.last_s)
    2
    """
    on = cluster_of(cluster)
    there = None if what_if is None else changed_by(on, parse_what_if(what_if))
    if isinstance(traffic, str | Path):
        asked = read_flows(Path(traffic), on.devices)
    else:
        asked = listed_flows(traffic, on.devices)
    study = simulate_flows(on, asked)
    record = {"verb": "simulate", "run": "", **study.record()}
    if there is not None:
        record["what_if"] = {"changes": what_if, **simulate_flows(there, asked).record()}
    return FlowsResult(record | {"environment": run_folder.environment()}, study.timeline())
