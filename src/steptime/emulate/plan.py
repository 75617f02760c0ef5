"""Plan: the hosts and shaped links that stand in for a cluster, and what is run on them.

Free of NumPy: a process of several threads, such as NumPy starts, cannot enter a host.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from steptime.emulate.faults import Fault

Start: TypeAlias = Literal["ranks", "hosts", "once"]
"""How often a command is started: for each rank, on each host, or on host 0 alone."""

MTU = 9000
_HEADERS = (MTU + 14) / (MTU - 52)  # Ethernet's 14 bytes, and 52 of IP and TCP within the MTU
_FRAMES = 2
"""The least that a bucket holds: as much passes at once, so that a short message seems fast."""

_LATE_S = 2e-4
"""How late the kernel's timer may be without loss of rate: so much more a bucket holds."""


@dataclass(frozen=True)
class Shape:
    """One direction of a host's link: ``rate`` in bytes/s of payload, ``latency`` in seconds."""

    name: str
    rate: float
    latency: float

    @property
    def wire_rate(self) -> int:
        """Bytes/s on the wire, headers included, that carry ``rate`` of payload."""
        return math.ceil(self.rate * _HEADERS)

    @property
    def burst(self) -> int:
        """Bytes that the bucket holds."""
        return max(_FRAMES * (MTU + 50), math.ceil(self.wire_rate * _LATE_S))

    @property
    def at_once(self) -> int:
        """Bytes of one connection that wait for the link: enough that it is never idle.

        A real host's queue is fair (fq_codel, systemd's default), so that a short message passes a
        long one's bytes. The one queue here is not: so it gets few of each connection.
        """
        return 2 * self.burst


@dataclass(frozen=True)
class Rail:
    """One interface of a host, and the port of that rail's switch at its other end."""

    interface: str
    address: str
    switch: str
    port: str
    out: Shape
    back: Shape


@dataclass(frozen=True)
class Host:
    """A host: its name, address, ranks and cores, and its link out and in."""

    name: str
    address: str
    ranks: tuple[int, ...]
    cores: tuple[int, ...]
    """The cores that are its own; empty where hosts share this machine's."""

    out: Shape
    back: Shape

    rail_count: int = 1
    """The interfaces among which its link is split evenly."""

    @property
    def rails(self) -> tuple[Rail, ...]:
        """Its interfaces: each in a subnet and on a switch of its own, as ranks expect them."""
        subnet = int(self.address.split(".")[1])
        return tuple(
            Rail(
                interface=f"eth{number}",
                address=self.address.replace(f".{subnet}.", f".{subnet + number}.", 1),
                switch=f"switch{number}",
                port=f"to-{self.name}-{number}",
                out=replace(self.out, rate=self.out.rate / self.rail_count),
                back=replace(self.back, rate=self.back.rate / self.rail_count),
            )
            for number in range(self.rail_count)
        )


@dataclass(frozen=True)
class Plan:
    """What is set up here, and what is run there."""

    cluster: str
    hosts: tuple[Host, ...]
    dilation: float
    """How many times slower than the cluster's the links are, and so everything that is timed."""

    command: tuple[str, ...]
    start: Start
    folder: str
    faults: tuple[Fault, ...] = ()
    congestion: str = "reno"
    """The congestion control of TCP on every host."""

    notes: tuple[str, ...] = ()
    """What of the cluster is not emulated, each in a sentence."""

    @property
    def world_size(self) -> int:
        """How many ranks there are on all hosts."""
        return sum(len(host.ranks) for host in self.hosts)
