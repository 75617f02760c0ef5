"""Rails: the network interfaces by which the ranks of different hosts reach each other."""

import fcntl
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from steptime.errors import UsageError

VARIABLES = ("STEPTIME_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
"""The environment variables that name interfaces, the first of which is heard."""

_LOOPBACK = "127.0.0.1"
_SIOCGIFADDR = 0x8915  # linux/sockios.h
_IPV6 = Path("/proc/net/if_inet6")
_GLOBAL = "00"  # the scope of an IPv6 address that others reach, as the kernel writes it


def addresses(environ: Mapping[str, str]) -> Sequence[str]:
    """The addresses of this host at which others are to reach it, one for each rail.

    Those of the interfaces that the environment names, ``eth0,eth1``; else the one from which this
    host reaches MASTER_ADDR, or that of its own name. Raises UsageError for an interface that is
    not there or has no address.
    """
    variable = next((name for name in VARIABLES if environ.get(name)), None)
    if variable is None:
        return (_usual(environ.get("MASTER_ADDR", "")),)
    names = [name.strip() for name in environ[variable].split(",") if name.strip()]
    found = [_address(name) for name in names]
    for name, address in zip(names, found, strict=True):
        if address is None:
            there = ", ".join(name for _, name in socket.if_nameindex())
            raise UsageError(
                f"{variable} names the network interface {name}, which {socket.gethostname()} has "
                f"not, or gave no address: it has {there}"
            )
    return [address for address in found if address is not None]


def _usual(master: str) -> str:
    """The address toward the master, or of this host's name; others reach no loopback there.

    The name of a host is that of its loopback on Debian.
    """
    toward = [_toward(address) for address in _resolved(master)]
    if toward and toward[0] == _LOOPBACK:
        return _LOOPBACK
    named = list(filter(_is_ours, _resolved(socket.gethostname())))
    others = (_address(name) for _, name in socket.if_nameindex())
    found = (one for one in (*toward, *named, *others) if one and not one.startswith("127."))
    return next(found, _LOOPBACK)


def _resolved(name: str) -> Iterator[str]:
    if name:
        with suppress(OSError):
            for *_, where in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM):
                yield str(where[0])


def _toward(address: str) -> str:
    """The address from which this host sends to another."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe, suppress(OSError):
        probe.connect((address, 9))  # of a datagram socket: nothing is sent
        return str(probe.getsockname()[0])
    return ""


def _is_ours(address: str) -> bool:
    """Whether a process of this host can listen at an address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


def _address(interface: str) -> str | None:
    """The IPv4 address of an interface, else its global IPv6 address, if it has any."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
        asked = struct.pack("16s24x", interface.encode()[:15])
        return socket.inet_ntoa(fcntl.ioctl(probe, _SIOCGIFADDR, asked)[20:24])
    with suppress(OSError):
        for line in _IPV6.read_text().splitlines():
            digits, _, _, scope, _, name = line.split()
            if (name, scope) == (interface, _GLOBAL):
                return socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits))
    return None
