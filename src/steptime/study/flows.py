"""Any traffic on a cluster: flows from a file, and when each is done."""

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from steptime.cluster import Cluster
from steptime.errors import UsageError
from steptime.files import bounded_text, reading
from steptime.limits import MOST_SECONDS, whole_number
from steptime.simulate.network.flows import finish_times
from steptime.timeline import INTERVAL, MESSAGE, Phase, Timeline
from steptime.units import parse_bytes

_MOST_BYTES = 1 << 28
COLUMNS = ("src", "dst", "bytes", "start_s")

Flow: TypeAlias = tuple[int, int, int | str] | tuple[int, int, int | str, float]
"""Source, destination, bytes, and the seconds at which it starts, 0 where they are left out."""

FLOW = np.dtype(
    [
        ("src", np.int32),  # a device
        ("dst", np.int32),
        ("bytes", np.int64),
        ("start", np.float64),  # seconds
    ]
)


@dataclass(frozen=True, eq=False)
class FlowStudy:
    """Flows, dtype FLOW, and when each is done, in seconds; both of shape (flows,)."""

    cluster: Cluster
    flows: NDArray[np.void]
    finish: NDArray[np.float64]

    def record(self) -> dict[str, Any]:
        """What run.json holds of it."""
        return {
            "source": "simulated",
            "cluster": self.cluster.name,
            "cluster_title": self.cluster.title,
            "flows": [
                {"src": src, "dst": dst, "bytes": size, "start_s": start, "finish_s": finish}
                for (src, dst, size, start), finish in zip(
                    self.flows.tolist(), self.finish.tolist(), strict=True
                )
            ],
        }

    def timeline(self) -> Timeline:
        """Every flow as a communication of its source, and as a message."""
        flows = self.flows
        intervals = np.zeros(len(flows), INTERVAL)
        messages = np.zeros(len(flows), MESSAGE)
        intervals["rank"] = messages["src"] = flows["src"]
        messages["dst"] = flows["dst"]
        intervals["phase"] = Phase.COMMUNICATION
        intervals["start"] = messages["sent"] = flows["start"]
        intervals["end"] = messages["received"] = self.finish
        intervals["bytes"] = messages["bytes"] = flows["bytes"]
        return Timeline(
            source="simulated",
            ranks=self.cluster.devices,
            names=("flow",),
            streams=("comm",),
            intervals=intervals,
            messages=messages,
        )


def simulate_flows(cluster: Cluster, flows: NDArray[np.void]) -> FlowStudy:
    """When each of the ``flows``, dtype FLOW, is done on a cluster."""
    finish = finish_times(cluster, flows["src"], flows["dst"], flows["bytes"], flows["start"])
    return FlowStudy(cluster, flows, np.asarray(finish))


def read_flows(path: Path, devices: int) -> NDArray[np.void]:
    """The flows of a CSV file, dtype FLOW, between so many devices.

    Its first line names the columns src, dst (device numbers), bytes and start_s, in any order.
    Raises UsageError naming the line where one is wrong.
    """
    text = bounded_text(path, "flows", _MOST_BYTES)
    with reading(path, "flows"):
        return _flows(path, text, devices)


def listed_flows(rows: Iterable[Flow], devices: int) -> NDArray[np.void]:
    """The same flows as tuples; UsageError naming the first that is wrong, from flow 1 on."""
    flows = []
    for number, cells in enumerate(rows, 1):
        where = f"flow {number}"
        if not 3 <= len(cells) <= len(COLUMNS):
            raise UsageError(f"{where} is {cells!r}: it must be (src, dst, bytes[, start_s])")
        texts = map(str, (*cells, 0.0)[: len(COLUMNS)])
        flows.append(_flow(dict(zip(COLUMNS, texts, strict=True)), where, devices))
    if not flows:
        raise UsageError("there are no flows: give one at least, as (src, dst, bytes)")
    return np.array(flows, FLOW)


def _flows(path: Path, text: str, devices: int) -> NDArray[np.void]:
    rows = csv.reader(text.splitlines())
    header = [column.strip() for column in next(rows, [])]
    _check_header(path, header)
    flows = []
    for cells in rows:
        if not any(cell.strip() for cell in cells):
            continue
        where = f"line {rows.line_num} of {path}"
        if len(cells) != len(header):
            raise UsageError(
                f"{where} has {len(cells)} columns and the first line {len(header)}: "
                f"write {','.join(header)}"
            )
        row = dict(zip(header, (cell.strip() for cell in cells), strict=True))
        flows.append(_flow(row, where, devices))
    if not flows:
        raise UsageError(f"{path} has no flows: below its first line write one in each line")
    return np.array(flows, FLOW)


def _flow(row: Mapping[str, str], where: str, devices: int) -> tuple[int, int, int, float]:
    return (
        _device(row, "src", where, devices),
        _device(row, "dst", where, devices),
        _size(row, where),
        _start(row, where),
    )


def _check_header(path: Path, header: list[str]) -> None:
    unknown = [column for column in header if column not in COLUMNS]
    if unknown or len(set(header)) < len(COLUMNS) or len(header) > len(COLUMNS):
        what = f"the column {unknown[0]!r}" if unknown else f"the columns {','.join(header)!r}"
        raise UsageError(f"line 1 of {path} has {what}: it must be {','.join(COLUMNS)}")


def _device(row: Mapping[str, str], column: str, where: str, devices: int) -> int:
    text = row[column]
    device = whole_number(text)
    if device is None or device >= devices:
        raise UsageError(
            f"{where}: {column} is {text!r}, and the cluster's devices are 0 to {devices - 1}"
        )
    return device


def _size(row: Mapping[str, str], where: str) -> int:
    try:
        size = parse_bytes(row["bytes"])
    except UsageError as error:
        raise UsageError(f"{where}: bytes are wrong: {error}") from None
    return size


def _start(row: Mapping[str, str], where: str) -> float:
    text = row["start_s"]
    try:
        start = float(text)
    except ValueError:
        start = np.nan
    if not 0 <= start <= MOST_SECONDS:
        raise UsageError(
            f"{where}: start_s is {text!r}: it must be a number of seconds from 0 to "
            f"{MOST_SECONDS:g}"
        )
    return start
