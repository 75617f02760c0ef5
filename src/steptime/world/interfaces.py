"""The network interfaces of this host, and the addresses at which others reach it."""

import fcntl
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

LOOPBACK = "127.0.0.1"

_SIOCGIFADDR = 0x8915  # linux/sockios.h
_IPV6 = Path("/proc/net/if_inet6")
_GLOBAL = "00"  # the scope of an IPv6 address that others reach, as the kernel writes it


def family_of(address: str) -> socket.AddressFamily:
    """Whether an address is of IPv4 or of IPv6."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def address_toward(other: str) -> str | None:
    """The address from which this host sends to another address or name, if it knows a way."""
    with suppress(OSError), socket.socket(family_of(other), socket.SOCK_DGRAM) as probe:
        probe.connect((other, 9))  # of a datagram socket: nothing is sent
        return str(probe.getsockname()[0])
    return None


def ipv4_addresses() -> Mapping[str, str]:
    """The IPv4 address of each interface that has one, by its name."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_one:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # it has none
                asked = struct.pack("16s24x", name.encode())
                answer = fcntl.ioctl(any_one, _SIOCGIFADDR, asked)
                found[name] = socket.inet_ntoa(answer[20:24])
    return found


def address_of(interface: str) -> str | None:
    """The IPv4 address of an interface, else its global IPv6 address, if it has any."""
    if (found := ipv4_addresses().get(interface)) is not None:
        return found
    with suppress(OSError):
        for line in _IPV6.read_text().splitlines():
            digits, _, _, scope, _, name = line.split()
            if (name, scope) == (interface, _GLOBAL):
                return socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits))
    return None
