"""Pulse: which hosts of a job hear one another, as their watches ask each other all the time.

A call that all ranks have made and that stands still says nothing of which host is gone. So the
watch of each host asks those of others by small datagrams, answers theirs, and writes down in the
folder of the run whom it hears. Where that folder is lost with the host, what it wrote last stands.
"""

import fcntl
import json
import os
import socket
import struct
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from steptime.errors import UsageError
from steptime.files import opened, parsed_json
from steptime.world.interfaces import LOOPBACK, address_toward, family_of, ipv4_addresses

PULSE = ".pulse"
"""How the file ends in which a host says where it is reached, and whom it hears."""

_BEAT_S = 0.25
_SILENT_BEATS = 8
"""Who has not been heard for so many of one's own beats is heard no more. Beats, not seconds: a
machine that stood still itself has asked nobody meanwhile."""

_NEIGHBOURS = 8
"""So many hosts each asks, those that follow it in the order of their names."""

_STALE_S = 2.0
_MOST = 256
_MOST_SAID = 1 << 20
_SIOCGIFFLAGS, _IFF_RUNNING = 0x8913, 0x40  # linux/sockios.h, linux/if.h


@dataclass(frozen=True, kw_only=True)
class View:
    """What a host says of the others.

    ``silent``: for how many of its beats it has not heard each that it ever heard. ``linked``:
    whether its own interface has a link. ``written_s``: when it said so, by the file system.
    """

    host: str
    silent: Mapping[str, int]
    linked: bool = True
    written_s: float = 0.0

    def hears(self, other: "View") -> bool:
        """Whether it has heard another just now."""
        return self.silent.get(other.host, _SILENT_BEATS) < _SILENT_BEATS


@dataclass(frozen=True, kw_only=True)
class LostHost:
    """A host that answers no more: for how long, whom not, and whether it says why itself."""

    host: str
    silent_s: float
    others: tuple[str, ...]
    linked: bool


def lost_hosts(views: Sequence[View], first: str) -> list[LostHost]:
    """The hosts that the job's others hear no more. ``first``: the host of rank 0.

    Hosts that hear each other, directly or by others between them, are together. Of several such
    parts the job is the one that has a link, then the largest, then the one that still writes, then
    that of rank 0.
    """
    newest = max((view.written_s for view in views), default=0.0)
    heard = {other for view in views for other in view.silent}

    def weight(part: Sequence[View]) -> tuple[bool, int, bool, bool]:
        fresh = any(newest - view.written_s < _STALE_S for view in part)
        linked = any(view.linked for view in part)
        return linked, len(part), fresh, any(view.host == first for view in part)

    parts = _parts([view for view in views if view.host in heard])
    job = max(parts, key=weight, default=[])
    return [
        LostHost(
            host=view.host,
            silent_s=_BEAT_S * min((one.silent[view.host] for one in witnesses), default=0),
            others=tuple(one.host for one in witnesses),
            linked=view.linked,
        )
        for part in parts
        for view in part
        if part is not job
        and (witnesses := [one for one in job if view.host in one.silent and not one.hears(view)])
    ]


def _parts(views: Iterable[View]) -> list[list[View]]:
    """The hosts, those together that hear each other."""
    left, parts = list(views), []
    while left:
        part = [left.pop(0)]
        for one in part:
            near = [view for view in left if _joined(one, view)]
            part += near
            left = [view for view in left if view not in near]
        parts.append(sorted(part, key=lambda view: view.host))
    return parts


def _joined(a: View, b: View) -> bool:
    return a.linked and b.linked and a.hears(b) and b.hears(a)


class Pulse:
    """Asks and answers for this host within a ``with``, in a thread of its own.

    ``folder``: where all hosts' files are. ``toward``: a name or address on the network of the job.
    """

    def __init__(self, folder: Path, toward: str | None) -> None:
        self.host = socket.gethostname()
        self._folder = folder
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("", 0))
        self._socket.settimeout(_BEAT_S / 5)
        self._address = _own_address(toward or self.host)
        self._peers: dict[str, tuple[str, int]] = {}
        self._heard: dict[str, int] = {}
        self._beat = 0
        self._begun_s = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="steptime-pulse", daemon=True)

    def __enter__(self) -> Self:
        self._write()
        with suppress(OSError):
            self._begun_s = self._file.stat().st_mtime
        self._thread.start()
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        """End it; a host that leaves in order is not missed."""
        self._over.set()
        self._thread.join(4 * _BEAT_S)
        self._socket.close()
        with suppress(OSError):
            self._file.unlink()

    def lost(self, first: str) -> list[LostHost]:
        """The hosts that answer no more, as all that write into the folder see it."""
        return lost_hosts([view for view, _ in self._said()], first)

    @property
    def _file(self) -> Path:
        return self._folder / f"{self.host}{PULSE}"

    def _run(self) -> None:
        following = time.monotonic()
        while not self._over.is_set():
            self._hear(following)
            following = max(following + _BEAT_S, time.monotonic())
            if self._beat % 4 == 0:
                self._peers |= {view.host: at for view, at in self._said() if at[1]}
            for name in self._asked():
                self._tell(b"?", self._peers[name])
            self._beat += 1
            if self._beat % 2:
                self._write()

    def _asked(self) -> list[str]:
        names = sorted({*self._peers, self.host})
        at = names.index(self.host)
        return [*names[at + 1 :], *names[:at]][:_NEIGHBOURS]

    def _hear(self, until: float) -> None:
        """Answer who asks, and note who is heard, until that moment."""
        while True:
            with suppress(OSError):  # nobody spoke
                said, where = self._socket.recvfrom(_MOST)
                host = said[1:].decode(errors="replace")
                if host in self._peers:
                    self._heard[host] = self._beat
                if said[:1] == b"?":
                    self._tell(b"!", where)
                continue  # what came while nobody listened is heard now, not beats later
            if time.monotonic() >= until:
                return

    def _tell(self, what: bytes, to: tuple[str, int]) -> None:
        with suppress(OSError):  # there is no way to it just now
            self._socket.sendto(what + self.host.encode(), to)

    def _write(self) -> None:
        content = {
            "host": self.host,
            "address": self._address,
            "port": self._socket.getsockname()[1],
            "linked": _has_link(self._address),
            "silent": {name: self._beat - beat for name, beat in self._heard.items()},
        }
        whole = self._file.with_suffix(".beating")
        with suppress(OSError):
            whole.write_text(json.dumps(content))
            whole.replace(self._file)

    def _said(self) -> list[tuple[View, tuple[str, int]]]:
        """What each host of this job says, and where it is reached."""
        found = []
        for file in sorted(self._folder.glob(f"*{PULSE}")):
            with (
                suppress(UsageError, OSError, ValueError, KeyError, AttributeError),
                opened(file, "pulse") as there,
            ):
                raw = parsed_json(there.read(_MOST_SAID), dict)
                view = View(
                    host=str(raw["host"]),
                    silent={str(name): int(beats) for name, beats in raw["silent"].items()},
                    linked=bool(raw["linked"]),
                    written_s=os.fstat(there.fileno()).st_mtime,
                )
                if view.written_s >= self._begun_s:  # else it is of a job before
                    found.append((view, (str(raw["address"]), int(raw["port"]))))
        return found


def _own_address(toward: str) -> str:
    """The IPv4 address of this host on the way to another, or its first that is no loopback."""
    own = address_toward(toward) if family_of(toward) == socket.AF_INET else None
    candidates = (own, *ipv4_addresses().values())
    return next((one for one in candidates if one and not one.startswith("127.")), LOOPBACK)


def _has_link(address: str) -> bool:
    """Whether the interface of an address has a link; True where that is not known."""
    name = next((name for name, its in ipv4_addresses().items() if its == address), None)
    if name is None:
        return True
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_one:
        asked = fcntl.ioctl(any_one, _SIOCGIFFLAGS, struct.pack("16sH14x", name.encode(), 0))
        return bool(struct.unpack_from("H", asked, 16)[0] & _IFF_RUNNING)
    return True
