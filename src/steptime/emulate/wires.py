"""Wires: the switches of an emulated cluster and its hosts' links, shaped both ways, counted.

A host's ``eth0`` and a port of a bridge are the ends of a pair of virtual Ethernet devices. A token
bucket on ``eth0`` is its link out, one on the port its link in, where several senders meet. Each
further rail has a bridge of its own: a host answers on any interface for all its addresses.
"""

import os
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from shutil import which

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from steptime.emulate.faults import Fault
from steptime.emulate.namespaces import enter
from steptime.emulate.plan import MTU, Host, Shape
from steptime.errors import SteptimeError, UsageError

_HOST_QUEUE = 1 << 24
"""Bytes that wait to leave a host, of all its connections: a host drops nothing of its own."""

_PORT_QUEUE = 1 << 20
"""Bytes that wait at a port of the switch; what comes beyond is dropped, and TCP slows down. So
much one port of a shallow switch may take of its memory (Alizadeh et al., "Data Center TCP",
SIGCOMM 2010, section 2.3.1, has 700 kB of 4 MB)."""

_LONGEST_SEGMENT = 1 << 16
"""Bytes of the longest segment that TCP hands to a device."""


class Wires:
    """The links of hosts, by the processes that hold their namespaces."""

    def __init__(self, holders: Mapping[str, int]) -> None:
        self._holders = holders
        self._here = IPRoute()

    def connect(self, host: Host) -> None:
        """Join a host to the switches; nothing limits its link yet."""
        holder = self._holders[host.name]
        for rail in host.rails:
            peer = {"ifname": rail.interface, "net_ns_pid": holder, "mtu": MTU}
            with _told("makes no pairs of devices", "veth"):
                self._here.link("add", ifname=rail.port, kind="veth", mtu=MTU, peer=peer)
            index = self._number(self._here, rail.port)
            self._here.link("set", index=index, master=self._switch(rail.switch), state="up")
        with _within(holder) as there:
            there.link("set", index=self._number(there, "lo"), state="up")
            for rail in host.rails:
                index = self._number(there, rail.interface)
                there.addr("add", index=index, address=rail.address, prefixlen=16)
                there.link("set", index=index, state="up")

    def shape(self, host: Host) -> None:
        """Give a host's link its rates, anew where it has some."""
        for rail in host.rails:
            self._bucket(self._here, rail.port, rail.back, _PORT_QUEUE)
        with _within(self._holders[host.name]) as there:
            for rail in host.rails:
                self._bucket(there, rail.interface, rail.out, _HOST_QUEUE)
                # A bucket takes segments that TCP left to the device to cut; no longer than this.
                longest = min(rail.out.at_once, _LONGEST_SEGMENT)
                index = self._number(there, rail.interface)
                there.link("set", index=index, gso_max_size=longest)

    def begin(self, fault: Fault, host: Host) -> None:
        """Let a fault happen; raises UsageError where the kernel cannot."""
        if fault.kind == "down":
            self._state(host, "down")
        elif fault.kind == "rate":
            out, back = (
                replace(one, rate=one.rate / fault.amount) for one in (host.out, host.back)
            )
            self.shape(replace(host, out=out, back=back))
        else:
            self._lose(host, fault.amount)

    def end(self, fault: Fault, host: Host) -> None:
        """Undo a fault."""
        if fault.kind == "down":
            self._state(host, "up")
        elif fault.kind == "rate":
            self.shape(host)
        else:
            self._nft(host, "delete table inet loss")

    def carried(self, hosts: tuple[Host, ...]) -> dict[str, int]:
        """The bytes that each link has carried, headers included, by its name."""
        found = Counter[str]()
        for host in hosts:
            for rail in host.rails:
                (link,) = self._here.get_links(ifname=rail.port)
                seen = link.get_attr("IFLA_STATS64")
                found[host.out.name] += int(seen["rx_bytes"])
                found[host.back.name] += int(seen["tx_bytes"])
        return found

    def _switch(self, name: str) -> int:
        """The bridge of this name, made if it is not there."""
        if not self._here.link_lookup(ifname=name):
            with _told("makes no switch", "bridge"):
                self._here.link("add", ifname=name, kind="bridge", mtu=MTU)
            self._here.link("set", index=self._number(self._here, name), state="up")
        return self._number(self._here, name)

    def _bucket(self, at: IPRoute, name: str, shape: Shape, queue: int) -> None:
        with _told("shapes no links", "sch_tbf"):
            at.tc(
                "replace",
                "tbf",
                self._number(at, name),
                handle=0x10000,
                rate=shape.wire_rate,
                burst=shape.burst,
                limit=queue + shape.burst,
            )

    def _state(self, host: Host, state: str) -> None:
        for rail in host.rails:
            self._here.link("set", index=self._number(self._here, rail.port), state=state)

    def _lose(self, host: Host, share: float) -> None:
        """Drop packets at random where they arrive at a host, and where they leave it."""
        lost = f"numgen random mod 1000000 < {round(1e6 * share)} drop"
        rules = [f'oifname "eth*" {lost}', f'iifname "eth*" {lost}']
        self._nft(
            host,
            "add table inet loss; "
            "add chain inet loss out { type filter hook output priority 0; }; "
            "add chain inet loss in { type filter hook input priority 0; }; "
            f"add rule inet loss out {rules[0]}; add rule inet loss in {rules[1]}",
        )

    def _nft(self, host: Host, rules: str) -> None:
        nft, holder = nft_program(), self._holders[host.name]
        done = subprocess.run(
            [nft, rules],
            preexec_fn=lambda: enter(holder),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            why = done.stderr.strip().splitlines()
            raise UsageError(
                f"this kernel loses no packets on purpose ({why[0] if why else 'nft failed'}): "
                "load its modules nf_tables and nft_numgen"
            )

    @staticmethod
    def _number(at: IPRoute, name: str) -> int:
        found = at.link_lookup(ifname=name)
        if not found:
            raise SteptimeError(f"the interface {name} of the emulated cluster is gone")
        return int(found[0])


def nft_program() -> str:
    """The program that loses packets; raises UsageError where it is missing."""
    nft = which("nft", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if nft is None:
        raise UsageError("loss of packets needs nft: install the package nftables")
    return nft


@contextmanager
def _told(what: str, module: str) -> Iterator[None]:
    """Raise UsageError, with the module that does it, where the kernel refuses what is within."""
    try:
        yield
    except NetlinkError as error:
        raise UsageError(
            f"this kernel {what} ({error.args[-1]}): load its module {module}"
        ) from None


@contextmanager
def _within(holder: int) -> Iterator[IPRoute]:
    with IPRoute(netns=f"/proc/{holder}/ns/net") as there:
        yield there
