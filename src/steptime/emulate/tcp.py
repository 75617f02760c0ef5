"""TCP on emulated hosts: as on hosts of their own, whatever this machine is set to.

Namespaces take over their machine's congestion control. Where that is BBR, which estimates a link's
rate over many round trips, a connection takes long to see that another's message has ended. And TCP
puts a millisecond's worth of each connection into a host's queue, more than a link that was slowed
down carries in that time, and a short message of another connection stands behind it.
"""

from collections.abc import Mapping
from pathlib import Path

from steptime.emulate.plan import Host
from steptime.errors import UsageError
from steptime.nearest import mend

_ALLOWED = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
_USUAL = ("cubic", "reno")
"""Linux's own default, and what it grew from, which every kernel has: on short links they do alike
(RFC 9438, section 4.3)."""


def congestion_control(asked: str | None = None) -> str:
    """The congestion control ``asked`` for, or else the usual one that hosts may have here.

    Raises UsageError where this kernel lets namespaces have no such one.
    """
    allowed = _ALLOWED.read_text().split() if _ALLOWED.exists() else ["reno"]
    if asked is None:
        return next((usual for usual in _USUAL if usual in allowed), allowed[0])
    if asked not in allowed:
        raise UsageError(
            f"--congestion-control {asked} is none that this kernel lets hosts have: "
            f"{mend(asked, allowed)} (root adds others in {_ALLOWED})"
        )
    return asked


def settings(host: Host, congestion: str, dilation: float) -> Mapping[str, str]:
    """What a host is set to, by the names of the kernel's files in /proc/sys/net/ipv4."""
    found = {
        "tcp_congestion_control": congestion,
        "tcp_limit_output_bytes": f"{host.rails[0].out.at_once}",
    }
    if dilation > 1:
        # The kernel's clock is not dilated: what seems idle to it is busy by the cluster's.
        found["tcp_slow_start_after_idle"] = "0"
    return found
