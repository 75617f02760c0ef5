"""Rails: the network interfaces by which the ranks of different hosts reach each other."""

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from steptime.errors import UsageError
from steptime.world.interfaces import (
    LOOPBACK,
    address_of,
    address_toward,
    family_of,
    ipv4_addresses,
)

VARIABLES = ("STEPTIME_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
"""The environment variables that name interfaces, the first of which is heard."""


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
    found = [address_of(name) for name in names]
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
    toward = [address_toward(address) for address in _resolved(master)]
    if toward and toward[0] == LOOPBACK:
        return LOOPBACK
    named = filter(_is_ours, _resolved(socket.gethostname()))
    candidates = (*toward, *named, *ipv4_addresses().values())
    return next((one for one in candidates if one and not one.startswith("127.")), LOOPBACK)


def _resolved(name: str) -> Iterator[str]:
    if name:
        with suppress(OSError):
            for *_, where in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM):
                yield str(where[0])


def _is_ours(address: str) -> bool:
    """Whether a process of this host can listen at an address."""
    with socket.socket(family_of(address), socket.SOCK_STREAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True
