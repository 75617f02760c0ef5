"""Clock alignment: offsets of other hosts' clocks from rank 0's, and timelines put on its clock.

``steptime.clock.now()`` goes with Linux's CLOCK_MONOTONIC: one clock for all ranks of a host, which
counts from its boot, and so another on every host.
"""

import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np

from steptime.arrays import Floats
from steptime.clock import now
from steptime.timeline import Clock, Timeline

ROUNDS = 40
"""Round trips to each host; the quickest gives the offset."""

_SEPARATOR = "\n"


class Peers(Protocol):
    """What reading clocks needs of a communication library: gather texts, pass numbers."""

    rank: int
    ranks: int

    def gather_texts(self, text: str) -> list[str]:
        """The ``text`` of every rank, in the order of the ranks, on every rank."""

    def send(self, number: float, to: int) -> None:
        """Send a number to a rank."""

    def receive(self, source: int) -> float:
        """Wait for a number from a rank."""


@dataclass(frozen=True, eq=False)
class Reading:
    """The clocks of all hosts, read once.

    ``hosts``: their names; ``ranks``: those of each, the first being the one whose clock was read.
    ``at``: the time of reading by that host's own clock; ``offset``: how far that clock is ahead of
    rank 0's; ``error``: the bound of the offset's error; all in seconds, shape (hosts,).
    """

    hosts: tuple[str, ...]
    ranks: tuple[tuple[int, ...], ...]
    at: Floats
    offset: Floats
    error: Floats


@dataclass(frozen=True, eq=False)
class Alignment:
    """The clocks of all hosts before and after a run."""

    before: Reading
    after: Reading

    def clocks(self) -> tuple[Clock, ...]:
        """The offset, drift and error bound of each host's clock, as Timeline keeps them."""
        first, last = self.before, self.after
        return tuple(
            Clock(
                host=host,
                ranks=ranks,
                offset_s=float(first.offset[place]),
                error_s=float(max(first.error[place], last.error[place])),
                drift_s=float(last.offset[place] - first.offset[place]),
            )
            for place, (host, ranks) in enumerate(zip(first.hosts, first.ranks, strict=True))
        )

    def on_rank_0(self, rank: int, seconds: Floats) -> Floats:
        """Times read on ``rank``, converted to rank 0's clock; assumes a constant drift."""
        first, last = self.before, self.after
        place = next(n for n, ranks in enumerate(first.ranks) if rank in ranks)
        lasted = last.at[place] - first.at[place]
        drift = (last.offset[place] - first.offset[place]) / lasted if lasted > 0 else 0.0
        passed = seconds - first.at[place]
        return np.asarray(seconds - first.offset[place] - drift * passed)

    def aligned(self, timeline: Timeline, rank: int) -> Timeline:
        """A timeline recorded on ``rank``, converted to rank 0's clock."""
        intervals = timeline.intervals.copy()
        for edge in ("start", "end"):
            intervals[edge] = self.on_rank_0(rank, intervals[edge])
        return replace(timeline, intervals=intervals, clocks=self.clocks())


def read_clocks(peers: Peers, clock: Callable[[], float] = now) -> Reading:
    """Read the clocks of all hosts; every rank calls it, and all get the same.

    Rank 0 sends a message to one rank of each other host, which answers with its clock's reading.
    The clock was read within the round trip, so taking the middle errs by at most half of it
    (Cristian, Distributed Computing 3, 1989). On one host nothing is sent.
    """
    identities = peers.gather_texts(_SEPARATOR.join((platform.node(), _identity())))
    of_clock: dict[str, list[int]] = {}
    for rank, one in enumerate(identities):
        of_clock.setdefault(one, []).append(rank)
    found = np.zeros((len(of_clock), 3))
    found[0, 0] = clock()
    for place, ranks in enumerate(of_clock.values()):
        if place and peers.rank == 0:
            found[place] = _ask(peers, ranks[0], clock)
        elif place and peers.rank == ranks[0]:
            _answer(peers, clock)
    if len(of_clock) > 1:
        heard = peers.gather_texts(_SEPARATOR.join(map(float.hex, found.reshape(-1).tolist())))[0]
        found = np.array([float.fromhex(one) for one in heard.split(_SEPARATOR)]).reshape(-1, 3)
    return Reading(
        hosts=tuple(one.partition(_SEPARATOR)[0] for one in of_clock),
        ranks=tuple(tuple(ranks) for ranks in of_clock.values()),
        at=found[:, 0],
        offset=found[:, 1],
        error=found[:, 2],
    )


def _identity() -> str:
    """An id of this host's monotonic clock: its boot and its time namespace.

    Host names would not do: two hosts may have the same one.
    """
    boot, namespace = Path("/proc/sys/kernel/random/boot_id"), Path("/proc/self/ns/time")
    try:
        return f"{boot.read_text().strip()} {namespace.readlink()}"
    except OSError:
        return "unknown"


def _ask(peers: Peers, of: int, clock: Callable[[], float]) -> tuple[float, float, float]:
    """The reading of another host's clock, its offset, and the bound of the offset's error."""
    best = (0.0, 0.0, float("inf"))
    for _ in range(ROUNDS):
        begin = clock()
        peers.send(begin, of)
        there = peers.receive(of)
        end = clock()
        if (end - begin) / 2 < best[2]:
            best = there, there - (begin + end) / 2, (end - begin) / 2
    return best


def _answer(peers: Peers, clock: Callable[[], float]) -> None:
    for _ in range(ROUNDS):
        peers.receive(0)
        peers.send(clock(), 0)
