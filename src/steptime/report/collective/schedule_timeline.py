"""How a schedule goes on a cluster, message by message and round by round; simulated."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from steptime.arrays import Floats
from steptime.cluster import Cluster
from steptime.cluster.cluster import NO_LINK
from steptime.collectives import Schedule
from steptime.units import format_rate, format_seconds

_FIRST_ROUNDS, _LAST_ROUNDS = 20, 4
_ALIKE = 1e-3
_LATENCY = "none: latency"


@dataclass(frozen=True)
class Busiest:
    """The link that takes longest for its bytes, and the share of the time that it takes.

    ``others`` are as many that take as long. Of messages without bytes no link: ``link`` is empty.
    """

    link: str
    others: int
    share: float

    def __str__(self) -> str:
        return f"{self.link}{f' (and {self.others} more)' * bool(self.others)}"


@dataclass(frozen=True, eq=False)
class ScheduleTimeline:
    """What a simulation tells of a schedule on a cluster; times are in seconds from the start.

    ``messages``: fields src, dst (ranks), round, sent, received and bytes, at least. ``begins``
    and ``ends``: the first and the last instant of each round in which a message travels, shape
    (rounds,); neighbours overlap. ``rounds``: their numbers, shape (rounds,).
    """

    cluster: Cluster
    seconds: float
    messages: NDArray[Any]
    rounds: NDArray[np.int32]
    begins: Floats
    ends: Floats
    busiest_of_round: tuple[Busiest, ...]
    busiest: Busiest


def schedule_timeline(schedule: Schedule, cluster: Cluster, nbytes: int) -> ScheduleTimeline:
    """Simulate a schedule with nothing else on the cluster, all ranks starting together.

    Raises UsageError when the cluster has fewer places than the schedule ranks.
    """
    from steptime.simulate.carry import carry

    devices = cluster.placed(schedule.ranks)
    carried = carry(schedule, cluster, devices, nbytes, keep_messages=True)
    messages = np.sort(np.asarray(carried.kept), order=["round", "sent", "src", "dst"])
    rounds, first = np.unique(messages["round"], return_index=True)
    begins = np.minimum.reduceat(messages["sent"], first) if rounds.size else np.zeros(0)
    ends = np.maximum.reduceat(messages["received"], first) if rounds.size else np.zeros(0)
    paths = cluster.paths(devices[messages["src"]], devices[messages["dst"]])
    bounds = pairwise([*first.tolist(), len(messages)])
    return ScheduleTimeline(
        cluster=cluster,
        seconds=carried.seconds,
        messages=messages,
        rounds=rounds,
        begins=begins,
        ends=ends,
        busiest_of_round=tuple(
            _busiest(cluster, _carried(cluster, paths[a:b], messages["bytes"][a:b]), lasting)
            for (a, b), lasting in zip(bounds, (ends - begins).tolist(), strict=True)
        ),
        busiest=_busiest(cluster, carried.link_bytes, carried.seconds),
    )


def _carried(cluster: Cluster, paths: NDArray[np.int32], nbytes: NDArray[np.int64]) -> Floats:
    """The bytes over each link, shape (links,), of messages of such paths and sizes."""
    crossed = paths != NO_LINK
    sizes = np.broadcast_to(nbytes[:, None], paths.shape)[crossed]
    return np.bincount(paths[crossed], sizes, cluster.links.bandwidth.size).astype(float)


def _busiest(cluster: Cluster, nbytes: Floats, lasting: float) -> Busiest:
    """The busiest of all links, over which so many bytes go while so many seconds pass."""
    seconds = nbytes / cluster.links.bandwidth
    if not seconds.any():
        return Busiest("", 0, 0.0)
    alike = np.flatnonzero(seconds >= seconds.max() * (1 - _ALIKE))
    return Busiest(cluster.links.names[alike[0]], alike.size - 1, float(seconds.max() / lasting))


def told(shown: ScheduleTimeline) -> str:
    """How long it takes, and which link has most to do, in a sentence or two."""
    hosts = len(set(shown.cluster.host_of[shown.cluster.placed(_ranks(shown))].tolist()))
    on = f"{shown.cluster.name}, {hosts} {'host' if hosts == 1 else 'hosts'}"
    taken = f"{format_seconds(shown.seconds)} on {on} (simulated)"
    if not shown.messages.size:
        return f"{taken}."
    if not shown.busiest.link:
        return f"{taken}; all of it is latency."
    return f"{taken}; {shown.busiest} is busy {100 * shown.busiest.share:.0f} % of it."


def _ranks(shown: ScheduleTimeline) -> int:
    ends = shown.messages[["src", "dst"]]
    return 1 + max(int(ends["src"].max()), int(ends["dst"].max())) if ends.size else 1


def print_schedule_timeline(console: Console, shown: ScheduleTimeline) -> None:
    """Print when each round begins and ends, and which link has most to do in it."""
    if not shown.rounds.size:
        return
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("round", "begins", "ends"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("busiest link", no_wrap=True, overflow="ellipsis")
    table.add_column("busy", justify="right", no_wrap=True)
    count = shown.rounds.size
    cut = count > _FIRST_ROUNDS + _LAST_ROUNDS
    for at in range(count):
        if cut and at == _FIRST_ROUNDS:
            table.add_row(*["⋮"] * 4, "", style="dim")
        if cut and _FIRST_ROUNDS <= at < count - _LAST_ROUNDS:
            continue
        busiest = shown.busiest_of_round[at]
        table.add_row(
            str(shown.rounds[at]),
            format_seconds(float(shown.begins[at])),
            format_seconds(float(shown.ends[at])),
            str(busiest) or _LATENCY,
            f"{100 * busiest.share:.0f} %",
        )
    console.print()
    console.print(table)
    console.print(Text(f"{_KEY}{_reduction(shown.cluster)}", "dim"))


_KEY = (
    "Simulated. A rank goes on as soon as it is done, so rounds may overlap. busy: the share of "
    "the round that the link’s bytes take at its full bandwidth; the rest is latency and waiting."
)


def _reduction(cluster: Cluster) -> str:
    rate = cluster.device.reduction
    return f" Between rounds a rank adds up what came at {format_rate(rate)}." * (rate < np.inf)


def schedule_timeline_record(shown: ScheduleTimeline) -> dict[str, Any]:
    """What ``--json`` prints of a course."""
    names = ("src", "dst", "round", "sent", "received", "bytes")
    keys = ("src", "dst", "round", "sent_s", "received_s", "bytes")
    columns = (shown.messages[name].tolist() for name in names)
    return {
        "source": "simulated",
        "cluster": shown.cluster.name,
        "time_s": shown.seconds,
        "busiest_link": shown.busiest.link or None,
        "busiest_share": shown.busiest.share,
        "rounds": [
            {
                "round": int(number),
                "begin_s": float(begin),
                "end_s": float(end),
                "busiest_link": busiest.link or None,
                "busiest_share": busiest.share,
            }
            for number, begin, end, busiest in zip(
                shown.rounds, shown.begins, shown.ends, shown.busiest_of_round, strict=True
            )
        ],
        "messages": [dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)],
    }
