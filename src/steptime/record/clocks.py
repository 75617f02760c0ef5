"""Clocks of several hosts put on one, by the calls that their ranks made together.

No rank comes back from a collective that needs something of all of them before the last one has
begun it. So each such call bounds how far the clock of one host is ahead of another's from both
sides, and many calls do so narrowly: Cristian's way of reading a remote clock (Distributed
Computing 3, 1989), with messages that the script sent anyway. Where hosts made no such call their
wall clocks count, as good as NTP keeps them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from steptime.record.operations import OPERATIONS
from steptime.record.read import ProcessLog
from steptime.timeline.timeline import Clock

_NEED_ALL = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
_TELL_ENDS = ("gloo", "steptime", "mpi")
"""Backends whose calls are done when they are told done, not only queued on a device."""


@dataclass
class _Bounds:
    """Between which nanoseconds one host's wall clock is ahead of another's."""

    low: float = -np.inf
    high: float = np.inf


def host_clocks(logs: Sequence[ProcessLog]) -> tuple[Clock, ...]:
    """How far each host's wall clock is ahead of that of the first rank's host.

    Empty where all ranks are of one host. A host that no calls connect with the first one is left
    out: nothing but its wall clock is known.
    """
    hosts = list(dict.fromkeys(log.host for log in logs))
    if len(hosts) == 1:
        return ()
    bounds = _bounds(logs)
    known = {hosts[0]: (0.0, 0.0)}
    reached = [hosts[0]]
    for here in reached:
        for there in hosts:
            of_pair = bounds.get((here, there))
            if there not in known and of_pair is not None:
                offset, error = known[here]
                middle, half = (of_pair.low + of_pair.high) / 2, (of_pair.high - of_pair.low) / 2
                # Bounds that exclude each other come of clocks that drift.
                known[there] = offset + middle, error + abs(half)
                reached.append(there)
    return tuple(
        Clock(
            host=host,
            ranks=tuple(log.rank for log in logs if log.host == host),
            offset_s=known[host][0] / 1e9,
            error_s=known[host][1] / 1e9,
        )
        for host in reached
    )


def _bounds(logs: Sequence[ProcessLog]) -> Mapping[tuple[str, str], _Bounds]:
    """The bounds of the second host's clock against the first's, of pairs that calls connect."""
    meetings: dict[tuple[object, ...], dict[str, tuple[int, int]]] = {}
    for log in logs:
        for meeting, issued, ended in _common(log):
            of_hosts = meetings.setdefault(meeting, {})
            last, first = of_hosts.get(log.host, (issued, ended))
            of_hosts[log.host] = max(last, issued), min(first, ended)
    bounds: dict[tuple[str, str], _Bounds] = {}
    for of_hosts in meetings.values():
        for here, (issued, ended) in of_hosts.items():
            for there, (issued_there, ended_there) in of_hosts.items():
                if here != there:
                    pair = bounds.setdefault((here, there), _Bounds())
                    pair.low = max(pair.low, issued_there - ended)
                    pair.high = min(pair.high, ended_there - issued)
    return bounds


def _common(log: ProcessLog) -> Iterator[tuple[tuple[object, ...], int, int]]:
    """The calls of a rank that need all ranks: which they are, from when to when by wall clock."""
    to_wall = log.wall_ns - log.clock_ns
    counts: dict[tuple[object, ...], int] = {}
    for call in log.calls:
        kind, group = OPERATIONS[call["operation"]].kind, log.groups[int(call["group"])]
        if kind not in _NEED_ALL or group.backend not in _TELL_ENDS:
            continue
        of = kind, group.torch_name or group.name, group.ranks
        counts[of] = counts.get(of, 0) + 1
        if call["ended"]:
            yield (*of, counts[of]), int(call["issued"]) + to_wall, int(call["ended"]) + to_wall
