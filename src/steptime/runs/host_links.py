"""What messages between hosts were carried at: the rates of TCP connections, by pair of hosts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steptime.world.wire import Flow


@dataclass(frozen=True, kw_only=True)
class HostLink:
    """All that the ranks of one host sent to those of another over TCP.

    ``busy_s``: for how long their connections had data on the way, added up, by the clock that
    times steps.
    """

    src: str
    dst: str
    bytes: int
    busy_s: float

    @property
    def rate(self) -> float:
        """Bytes/s of a connection while it had data on the way."""
        return self.bytes / self.busy_s


def host_links(flows: Iterable[tuple[str, Sequence[Flow]]]) -> list[HostLink]:
    """What was carried between every two hosts, by the connections of ranks and their hosts."""
    known = [(host, flow) for host, of in flows for flow in of]
    host_at = {flow.here: host for host, flow in known}
    found: dict[tuple[str, str], tuple[int, float]] = {}
    for host, flow in known:
        there = host_at.get(flow.there, host)
        if there != host and flow.busy_s > 0:
            before = found.get((host, there), (0, 0.0))
            found[host, there] = before[0] + flow.acknowledged, before[1] + flow.busy_s
    return [
        HostLink(src=src, dst=dst, bytes=nbytes, busy_s=busy_s)
        for (src, dst), (nbytes, busy_s) in sorted(found.items())
    ]
