"""NetworkSimulator: messages and collectives on a cluster, from one event to the next."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steptime.arrays import Floats, Ints
from steptime.cluster import Cluster
from steptime.collectives.schedule import Schedule
from steptime.errors import UsageError
from steptime.simulate.network import engine, storage
from steptime.simulate.network.moves import MoveMaker
from steptime.simulate.network.series import LinkSeries, series_of
from steptime.simulate.network.state import FLOWING, NONE, ROOM, ROUNDS, Moves
from steptime.simulate.network.unshared import at_first


class Done(NamedTuple):
    """A lone message, or the part of ``rank`` in a collective, was done ``at`` a time in seconds.

    ``token`` tells which message or collective; of a lone message ``rank`` is -1.
    """

    token: int
    rank: int
    at: float


@dataclass(eq=False)
class _Collective:
    """A collective in progress: its parts and owner in the network, and its unread moves."""

    schedule: Schedule
    nbytes: int
    devices: Ints
    owner: int
    base: int
    unread: Iterator[tuple[Moves, bool]]
    unfinished: int


class NetworkSimulator:
    """Messages on the links of a cluster, and the ranks that wait for them.

    A message waits out the latencies of the links of its path, then its bytes flow at its max-min
    fair share of their bandwidths, or at one as uneven as the cluster's ``unfairness``. A message
    of a round of a collective begins when both its ranks have entered the round. A rank enters the
    next round when its messages of this one are done and what they brought is reduced, at the
    ``reduction`` rate of the cluster's device. To another host a message is done for its sender
    when no more is left than the cluster's ``send_buffer``: the sender's next message then shares
    the link with the rest.
    """

    def __init__(self, cluster: Cluster, *, keep_messages: bool = False) -> None:
        """``keep_messages``: keep a row of every message.

        Raises UsageError for a link with impossible figures.
        """
        self._cluster = cluster
        self._network = storage.empty_network(cluster, keep=keep_messages)
        self._moves = MoveMaker(cluster)
        self._tokens = 0
        self._collectives: dict[int, _Collective] = {}
        self._owned: dict[int, _Collective] = {}
        self._parts = self._owners = 0
        self._spare_parts: dict[int, list[int]] = {}
        self._spare_owners: list[int] = []
        self._sent: list[tuple[int, int, int, float, float]] = []
        self._entered: list[tuple[int, float]] = []

    @property
    def now(self) -> float:
        """Seconds since the beginning."""
        return float(self._network.counts["now"][0])

    @property
    def messages(self) -> int:
        """How many messages have arrived."""
        return int(self._network.counts["messages"][0])

    @property
    def link_bytes(self) -> Floats:
        """The bytes that each link has carried, shape (links,)."""
        return self._network.links["nbytes"].copy()

    @property
    def kept(self) -> NDArray[Any]:
        """The messages that have arrived, dtype KEPT; none unless they are kept."""
        return storage.kept_of(self._network)

    @property
    def link_series(self) -> LinkSeries:
        """What the links have carried over time, so far."""
        if (self._network.flows["state"] == FLOWING).any():
            engine.tally(self._network)
        return series_of(self._network)

    def send(self, src: int, dst: int, nbytes: float, at: float) -> int:
        """Send a message from one device to another at a time, not before now; returns a token."""
        token, self._tokens = self._tokens, self._tokens + 1
        self._sent.append((token, src, dst, nbytes, at))
        return token

    def begin(self, schedule: Schedule, devices: ArrayLike, nbytes: int) -> int:
        """Begin a collective, which no rank has entered yet; returns its token.

        ``devices``: that of each rank, shape (ranks,). Raises UsageError when these are not on the
        cluster, and when the messages of one round would not fit into memory.
        """
        places = np.asarray(devices, np.int32)
        if places.shape != (schedule.ranks,):
            raise UsageError(
                f"{places.size} devices are given for {schedule.ranks} ranks: give one for each"
            )
        if ((places < 0) | (places >= self._cluster.devices)).any():
            raise UsageError(
                f"a rank is on device {places.max()}: {self._cluster.name} has devices 0 to "
                f"{self._cluster.devices - 1}"
            )
        self._moves.check_memory(schedule, places)
        token, self._tokens = self._tokens, self._tokens + 1
        owner, base = self._room_for(schedule.ranks)
        made = _Collective(
            schedule,
            nbytes,
            places,
            owner,
            base,
            self._moves.of_collective(schedule, places, nbytes),
            schedule.ranks,
        )
        self._collectives[token] = self._owned[owner] = made
        network = self._network
        network.owners[owner] = (token, base, schedule.ranks, False, NONE, 0, NONE)
        network.parts[base : base + schedule.ranks] = (0.0, NONE, NONE, 0, owner, NONE)
        return token

    def enter(self, collective: int, rank: int, at: float) -> None:
        """Let a rank enter the first round of a collective at a time, not before now."""
        self._entered.append((self._collectives[collective].base + rank, at))

    def advance(self, until: float = inf) -> list[Done]:
        """Run to the first instant, at most ``until``, at which something is done; returns that.

        An empty list when ``until`` comes first, to which time then moves, or nothing is in
        progress. Raises UsageError for a message that cannot be sent, or a time in the past, given
        since the last call.
        """
        self._run(until, stop=True)
        return [Done(*row) for row in self._ended().tolist()]

    def finish(self) -> NDArray[Any]:
        """Run until no event is left; returns all that was done, as rows of token, rank, at."""
        if not self._finish_unshared():
            self._run(inf, stop=False)
        return self._ended()

    def send_all(self, src: ArrayLike, dst: ArrayLike, nbytes: ArrayLike, at: ArrayLike) -> int:
        """Send many messages, as ``send`` would one by one; returns the token of the first.

        Each argument has shape (messages,); the tokens are consecutive. Raises UsageError for one
        that cannot be sent.
        """
        first, self._tokens = self._tokens, self._tokens + np.size(src)
        self._dispatch(np.arange(first, self._tokens), src, dst, nbytes, at)
        return first

    def _room_for(self, ranks: int) -> tuple[int, int]:
        """An owner and its first part, new or freed by a collective of as many ranks."""
        if self._spare_owners:
            owner = self._spare_owners.pop()
        else:
            owner, self._owners = self._owners, self._owners + 1
            if self._owners > len(self._network.owners):
                self._network = storage.with_owners(self._network, 2 * self._owners)
        if spare := self._spare_parts.get(ranks):
            return owner, spare.pop()
        base, self._parts = self._parts, self._parts + ranks
        if self._parts > len(self._network.parts):
            self._network = storage.with_parts(self._network, 2 * self._parts)
        return owner, base

    def _finish_unshared(self) -> bool:
        """Simulate a lone collective without events, if its messages share no link.

        Returns whether it did, and all is done.
        """
        counts = self._network.counts
        if self._tokens != 1 or len(self._collectives) != 1 or counts["keep"]:
            return False
        if self._cluster.send_buffer:
            return False
        (token,) = self._collectives
        collective = self._collectives[token]
        times = {part - collective.base: at for part, at in self._entered}
        possible = all(self.now <= at < inf for at in times.values())
        if len(times) != collective.devices.size or not possible:
            return False
        enters = np.array([times[rank] for rank in range(len(times))], float)
        progress = at_first(enters, len(self._network.links))
        every = self._moves.of_collective(
            collective.schedule, collective.devices, collective.nbytes
        )
        for number, (moves, last) in enumerate(every):
            self._widen(moves)
            if not engine.follow(self._network, moves, progress, last):
                storage.clear(self._network)
                if not number:  # most messages that meet do so early
                    collective.unread = chain([(moves, last)], every)
                return False
        ends = progress.entered
        self._entered.clear()
        order = np.argsort(ends, kind="stable")
        rows = self._network.ended[: ends.size]
        rows["token"], rows["rank"], rows["at"] = token, order, ends[order]
        counts["ended"] = ends.size
        return True

    def _run(self, until: float, *, stop: bool) -> None:
        if self._sent:
            self._dispatch(*zip(*self._sent, strict=True))
            self._sent.clear()
        parts, at = self._entering()
        while True:
            reason = engine.run(self._network, parts, at, until, stop)
            parts, at = parts[:0], at[:0]
            if reason == ROUNDS:
                self._feed(self._owned[int(self._network.counts["without_rounds"][0])])
            elif reason == ROOM:
                self._network = storage.with_log(self._network)
            else:
                return

    def _entering(self) -> tuple[Ints, Floats]:
        """The parts that enter collectives since the last call, and when, shape (n,) both."""
        entered = np.array(self._entered, float).reshape(-1, 2)
        self._entered.clear()
        parts, at = entered[:, 0].astype(np.int32), entered[:, 1].copy()
        impossible = at[~((at >= self.now) & (at < inf))]
        if impossible.size:
            raise UsageError(
                f"no rank can enter a collective at {impossible[0]:g} s: it is {self.now:g} s now"
            )
        return parts, at

    def _dispatch(
        self, tokens: ArrayLike, src: ArrayLike, dst: ArrayLike, nbytes: ArrayLike, at: ArrayLike
    ) -> None:
        devices, sizes = np.array([src, dst], np.int32), np.array(nbytes, float)
        moments = np.array(at, float)
        self._check(devices, sizes, moments)
        moves = self._moves.alone(devices, sizes)
        self._widen(moves)
        self._network = storage.with_flows(self._network, *moves.paths.shape)
        engine.dispatch(self._network, np.array(tokens, np.int64), moments, moves)

    def _check(self, devices: Ints, nbytes: Floats, at: Floats) -> None:
        """Raise UsageError for the first message that cannot be sent."""
        src, dst = devices
        beyond = ((devices < 0) | (devices >= self._cluster.devices)).max(axis=0)
        no_size = ~((nbytes >= 0) & (nbytes < inf))
        no_time = ~((at >= self.now) & (at < inf))
        if not (beyond | no_size | no_time).any():
            return
        one = int(np.argmax(beyond | no_size | no_time))
        what = f"message {one} "
        if beyond[one]:
            what += (
                f"goes from device {src[one]} to {dst[one]}: {self._cluster.name} has devices 0 to "
                f"{self._cluster.devices - 1}"
            )
        elif no_size[one]:
            what += f"has {nbytes[one]:g} bytes: give a number from 0 on"
        else:
            what += f"starts at {at[one]:g} s: it is {self.now:g} s already, so give a later time"
        raise UsageError(what)

    def _feed(self, collective: _Collective) -> None:
        """Append the next messages of a collective to its chains."""
        moves, last = next(collective.unread)
        self._network.owners["exhausted"][collective.owner] = last
        self._widen(moves)
        self._network = storage.with_flows(self._network, *moves.paths.shape)
        engine.append(self._network, collective.base, moves, 0, len(moves.rows))

    def _widen(self, moves: Moves) -> None:
        """Give all links that moves pass a row in the series."""
        self._network = storage.with_series(self._network, moves.paths)

    def _ended(self) -> NDArray[Any]:
        """All that ended since the last call; frees the storage of collectives that ended."""
        counts = self._network.counts
        ended = self._network.ended[: counts["ended"][0]].copy()
        counts["ended"] = 0
        tokens, ranks = np.unique(ended["token"][ended["rank"] != NONE], return_counts=True)
        for token, done in zip(tokens.tolist(), ranks.tolist(), strict=True):
            collective = self._collectives[token]
            collective.unfinished -= done
            if not collective.unfinished:
                del self._collectives[token], self._owned[collective.owner]
                self._spare_owners.append(collective.owner)
                size = collective.devices.size
                self._spare_parts.setdefault(size, []).append(collective.base)
        return ended
