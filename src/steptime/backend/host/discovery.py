"""Discovery: which ranks share a host, found by reading a token in each other's memory.

Two ranks share a host if each can open the other's memory and finds there the token that the other
published. Ranks in different containers, or of different users, do not.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steptime.backend.host import segment
from steptime.backend.host.arena import TOKEN_BYTES, PeerArena, arena
from steptime.backend.host.kernel import in_use
from steptime.backend.host.process import Process, started
from steptime.errors import UsageError
from steptime.world import compat
from steptime.world.environment import LostContactError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from steptime.world.compat import Store


@dataclass(frozen=True)
class Peer:
    """A rank of this host, this one included."""

    process: Process
    arena: PeerArena


@dataclass(frozen=True)
class HostMap:
    """The ranks of a group by host, and how this rank reaches those of its own host."""

    rank: int
    """This rank, among all."""

    partition: tuple[tuple[int, ...], ...]
    """All ranks by host, each host's ascending; hosts in the order of their first rank."""

    peers: tuple[Peer, ...]
    """The ranks of this host, in the order of ``members``."""

    @property
    def members(self) -> tuple[int, ...]:
        """The ranks of this host."""
        return next(part for part in self.partition if self.rank in part)


def find_hosts(store: Store, rank: int, ranks: int, timeout_s: float) -> HostMap:
    """Find out which of the ``ranks`` ranks that use ``store`` share a host; all must call it.

    Raises UsageError where the host engine cannot work, LostContactError when a rank does not come
    within ``timeout_s`` or the timeout of the store, whichever is shorter.
    """
    _refuse_elsewhere()
    memory = arena()
    process = Process(os.getpid(), started(os.getpid()) or 0)
    cards = _exchange(
        store,
        "card",
        rank,
        ranks,
        {
            "pid": process.pid,
            "start": process.start,
            "fd": memory.fd,
            "token": memory.token.hex(),
            "host": _host(),
        },
        timeout_s,
    )
    peers = {other: peer for other, card in enumerate(cards) if (peer := _peer(**card))}
    reach = [
        set(found) for found in _exchange(store, "reach", rank, ranks, sorted(peers), timeout_s)
    ]
    partition = _partition(reach)
    here = next(part for part in partition if rank in part)
    return HostMap(rank, partition, tuple(peers[other] for other in here))


def receive(store: Store, key: str, rank: int, timeout_s: float) -> Any:
    """The value that ``rank`` published under the key; LostContactError if none comes in time."""
    try:
        store.wait([f"{key}/{rank}"], min(timedelta(seconds=timeout_s), compat.timeout_of(store)))
        return json.loads(store.get(f"{key}/{rank}"))
    except RuntimeError as error:  # what a store raises at its timeout, or at its own loss
        raise LostContactError(
            f"rank {rank} did not join the group: it died, hangs, or was never started"
        ) from error


def publish(store: Store, key: str, rank: int, value: Any) -> None:
    """Publish a value of this rank, which the others get by ``receive``."""
    store.set(f"{key}/{rank}", json.dumps(value))


def _exchange(
    store: Store, key: str, rank: int, ranks: int, value: Any, timeout_s: float
) -> list[Any]:
    publish(store, key, rank, value)
    return [receive(store, key, other, timeout_s) for other in range(ranks)]


def _partition(reach: Sequence[set[int]]) -> tuple[tuple[int, ...], ...]:
    """Put every rank into the first part with all of whose ranks it shares memory both ways."""
    parts: list[list[int]] = []
    for rank, reached in enumerate(reach):
        for part in parts:
            if all(other in reached and rank in reach[other] for other in part):
                part.append(rank)
                break
        else:
            parts.append([rank])
    return tuple(map(tuple, parts))


def _host() -> str:
    """What all processes of a host have in common, and those of another emulated one have not."""
    return f"{platform.node()} {Path('/proc/self/ns/net').readlink()}"


def _peer(pid: int, start: int, fd: int, token: str, host: str) -> Peer | None:
    """Open the arena of the process with these credentials; None where it is on another host."""
    if host != _host():
        return None
    process = Process(pid, start)
    if (known := arena().peers.get(token)) is not None:
        return Peer(process, known)
    if not process.lives() or (opened := segment.open_of(pid, fd)) is None:
        return None
    try:
        if os.pread(opened, TOKEN_BYTES, 0).hex() != token:
            return None
        arena().peers[token] = peer = PeerArena(pid, opened)
    finally:
        os.close(opened)
    return Peer(process, peer)


def _refuse_elsewhere() -> None:
    if not sys.platform.startswith("linux"):
        raise UsageError("the backend steptime needs Linux: use gloo here")
    if not in_use() and platform.machine() != "x86_64":
        raise UsageError(
            "without its kernel in C the backend steptime relies on the memory order of x86-64, "
            f"and this machine is {platform.machine()}: install gcc and Python's headers, then "
            "steptime again, or use gloo here"
        )
