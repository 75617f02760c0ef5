"""Wire: what this process really sent and received over TCP, as the kernel counts it.

Linux counts every socket's bytes in ``struct tcp_info`` (linux/tcp.h): tcpi_bytes_acked and
tcpi_bytes_received at offsets 120 and 128 since 4.1; tcpi_busy_time, the microseconds in which data
waited to be acknowledged, at 168 since 4.10; tcpi_bytes_sent, retransmissions included, at 200
since 4.19.
"""

import os
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from steptime import clock
from steptime.collectives.call_bytes import Traffic

_ACKED, _RECEIVED, _BUSY, _SENT = 120, 128, 168, 200


@dataclass(frozen=True, kw_only=True)
class Flow:
    """What a connection of this process has sent: its two addresses, bytes that arrived, seconds.

    ``busy_s``: how long data was on the way, by the clock that times steps.
    """

    here: str
    there: str
    acknowledged: int
    busy_s: float


def wire_traffic() -> Traffic | None:
    """Bytes over all open TCP sockets of this process; None where the kernel has no count."""
    total = Traffic(0, 0)
    counted = False
    for _, info in _sockets():
        total = total.plus(Traffic(_count(info, _SENT), _count(info, _RECEIVED)))
        counted = True
    return total if counted else None


def flows() -> tuple[Flow, ...]:
    """The open TCP connections of this process, since each began; none without a count."""
    found = []
    for one, info in _sockets():
        with suppress(OSError):  # it only listens
            found.append(
                Flow(
                    here=_address(one.getsockname()),
                    there=_address(one.getpeername()),
                    acknowledged=_count(info, _ACKED),
                    busy_s=_count(info, _BUSY) / 1e6 / clock.DILATION,
                )
            )
    return tuple(found)


def _sockets() -> Iterator[tuple[socket.socket, bytes]]:
    """The TCP sockets of this process, each open for one round, with what the kernel counts."""
    for entry in Path("/proc/self/fd").glob("*"):
        with suppress(OSError):
            if not str(entry.readlink()).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(entry.name))) as copy:
                info = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                if len(info) >= _SENT + 8:
                    yield copy, info


def _count(info: bytes, offset: int) -> int:
    (found,) = struct.unpack_from("Q", info, offset)
    return int(found)


def _address(name: tuple[str, int]) -> str:
    """The address of a socket; an IPv4 one as such where the socket is one of IPv6."""
    return name[0].removeprefix("::ffff:")
