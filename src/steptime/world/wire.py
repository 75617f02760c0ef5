"""Wire: bytes that this process really sent and received over TCP, as the kernel counts them.

Linux counts every socket's bytes in ``struct tcp_info`` (linux/tcp.h): tcpi_bytes_received at
offset 128 since 4.1 and tcpi_bytes_sent, retransmissions included, at offset 200 since 4.19.
"""

import os
import socket
import struct
from pathlib import Path

from steptime.collectives.call_bytes import Traffic

_RECEIVED, _SENT = 128, 200


def wire_traffic() -> Traffic | None:
    """Bytes over all open TCP sockets of this process; None where the kernel has no count."""
    total = Traffic(0, 0)
    counted = False
    for entry in Path("/proc/self/fd").glob("*"):
        info = _tcp_info(entry)
        if info is not None and len(info) >= _SENT + 8:
            (received,) = struct.unpack_from("Q", info, _RECEIVED)
            (sent,) = struct.unpack_from("Q", info, _SENT)
            total = total.plus(Traffic(sent, received))
            counted = True
    return total if counted else None


def _tcp_info(entry: Path) -> bytes | None:
    try:
        if not str(entry.readlink()).startswith("socket:"):
            return None
        with socket.socket(fileno=os.dup(int(entry.name))) as copy:
            return copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    except OSError:
        return None
