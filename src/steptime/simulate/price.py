"""Price: what a collective takes on its group's devices, simulated once for equivalent groups."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType

import numpy as np

from steptime.arrays import Floats, Ints, Longs, distinct
from steptime.cluster import NO_LINK, Cluster
from steptime.collectives.execute import slot_offsets
from steptime.collectives.schedule import TRANSFER, Round, Schedule
from steptime.errors import UsageError
from steptime.simulate.carry import carry

MOST_TRANSFERS = 2_500_000
"""Limit of a schedule that is simulated message by message: some seconds on one core."""

RINGS: Mapping[tuple[str, str], Callable[[int], int]] = MappingProxyType(
    {
        ("all_reduce", "ring"): lambda ranks: 2 * (ranks - 1),
        ("reduce_scatter", "ring"): lambda ranks: ranks - 1,
        ("all_gather", "ring"): lambda ranks: ranks - 1,
    }
)
"""The number of rounds of each ring algorithm, whose rounds all take as long."""

_PACED = (32, 64)  # rounds of a long ring that are simulated: by the first its pace is steady
_AT_ONCE = 1 << 20  # links of paths held at a time


@dataclass(frozen=True, eq=False)
class Pairs:
    """The total that a schedule sends from rank ``src`` to ``dst``; arrays of shape (pairs,).

    ``messages``: their number in all rounds; ``rounds``: the rounds in which the busiest rank takes
    part.
    """

    src: Ints
    dst: Ints
    nbytes: Floats
    messages: float
    rounds: float


def pairs(schedule: Schedule, nbytes: int) -> Pairs:
    """The bytes between each pair of ranks by ``schedule`` for ``nbytes`` bytes a rank.

    Of a ring of more than MOST_TRANSFERS transfers the first rounds are counted for all.

    Raises UsageError when another schedule has so many.
    """
    offsets = np.asarray(slot_offsets(schedule, nbytes))
    long = _long_ring(schedule)
    part = _first_rounds(schedule, _PACED[1]) if long else schedule
    scale = long / _PACED[1] if long else 1.0
    rounds: list[Round] = [np.empty(0, TRANSFER)]
    takes_part = np.zeros(schedule.ranks, np.int64)
    looked_at = 0
    for transfers in part.rounds():
        rounds.append(transfers[transfers["src"] != transfers["dst"]])
        looked_at += rounds[-1].size
        here = np.zeros(schedule.ranks, np.bool_)
        here[rounds[-1]["src"]] = here[rounds[-1]["dst"]] = True
        takes_part += here
        if looked_at > MOST_TRANSFERS:
            raise UsageError(
                f"the {schedule.collective.name} {schedule.algorithm!r} on {schedule.ranks} ranks "
                f"makes more than {MOST_TRANSFERS:,} transfers, too many to simulate: choose an "
                "algorithm of fewer"
            )
    sent = np.concatenate(rounds)
    number = np.repeat(np.arange(len(rounds)), [one.size for one in rounds])
    ends = (sent["src"].astype(np.int64) << 32) | sent["dst"]
    keys, which = np.unique(ends, return_inverse=True)
    sizes = offsets[sent["first"] + sent["count"]] - offsets[sent["first"]]
    return Pairs(
        src=(keys >> 32).astype(np.int32),
        dst=(keys & 0xFFFFFFFF).astype(np.int32),
        nbytes=np.asarray(scale * np.bincount(which, sizes, minlength=keys.size), np.float64),
        messages=scale * distinct(number * keys.size + which),
        rounds=scale * int(takes_part.max()),
    )


def _long_ring(schedule: Schedule) -> int:
    """The rounds of a ring that is too long to be simulated whole, else 0."""
    name = schedule.collective.name, schedule.algorithm
    rounds = RINGS[name](schedule.ranks) if name in RINGS else 0
    return rounds if rounds * schedule.ranks > MOST_TRANSFERS else 0


def _first_rounds(schedule: Schedule, count: int) -> Schedule:
    return replace(schedule, generate=lambda: islice(schedule.generate(), count))


def seconds(schedule: Schedule, cluster: Cluster, devices: Ints, nbytes: int) -> float:
    """The time of ``schedule`` alone on ``devices``, shape (ranks,), when all start at once.

    Each message is simulated, but of a ring of more than MOST_TRANSFERS only those of the first
    rounds: all move the same bytes between the same neighbours, so after a few rounds each takes as
    long as the one before.
    """
    rounds = _long_ring(schedule)
    if not rounds:
        return carry(schedule, cluster, devices, nbytes).seconds
    few, more = (
        carry(_first_rounds(schedule, count), cluster, devices, nbytes).seconds for count in _PACED
    )
    return more + (rounds - _PACED[1]) * (more - few) / (_PACED[1] - _PACED[0])


@dataclass(frozen=True, eq=False)
class Offer:
    """A schedule on several groups of devices that all run it at the same time.

    ``groups``: shape (groups, ranks). ``rows``: the links that the messages of each take, shape
    (groups, n). ``busy``: how long the busiest of a group's links is busy with the group's bytes,
    in seconds, and ``crowded`` with those of all groups, both of shape (groups,).
    """

    cluster: Cluster
    schedule: Schedule
    nbytes: int
    sent: Pairs
    groups: Ints
    rows: Ints
    busy: Floats
    crowded: Floats

    @property
    def least(self) -> float:
        """A lower bound of the seconds that the slowest group takes."""
        latency = np.append(self.cluster.links.latency, 0.0)
        paths = latency[self.rows].reshape(self.rows.shape[0] * self.sent.src.size, -1)
        quickest = float(paths.sum(axis=1).min(initial=np.inf)) if paths.size else 0.0
        return max(float(self.crowded.max(initial=0.0)), self.sent.rounds * quickest)


def offer(cluster: Cluster, schedule: Schedule, groups: Ints, nbytes: int) -> Offer:
    """The Offer of ``schedule`` on a cluster; raises UsageError as ``pairs`` does."""
    sent = pairs(schedule, nbytes)
    paths = cluster.paths(groups[:, sent.src].ravel(), groups[:, sent.dst].ravel())
    rows = paths.reshape(len(groups), -1)
    busy, crowded = loads(cluster, rows, np.repeat(sent.nbytes, paths.shape[1]))
    return Offer(cluster, schedule, nbytes, sent, groups, rows, busy, crowded)


def group_seconds(one: Offer, kinds: Ints) -> Floats:
    """What an offer takes each of its groups, in seconds, shape (groups,).

    What a group takes alone is simulated once for all groups of one shape. A group cannot be done
    before the busiest of its links has carried the bytes of all groups, while alone it waits only
    for its own bytes. So it takes longer by the difference, which is exact where it waits for that
    link all the time. ``kinds``: the kind of each link of the cluster.
    """
    shape = shapes(kinds, one.rows) if len(one.groups) > 1 else np.zeros(1, np.int64)
    alone = np.empty(len(one.groups))
    for first in np.unique(shape):
        devices = one.groups[first]
        alone[shape == first] = seconds(one.schedule, one.cluster, devices, one.nbytes)
    return np.asarray(alone + one.crowded - one.busy)


def message_seconds(cluster: Cluster, src: Ints, dst: Ints, nbytes: int) -> Floats:
    """The time of each message where all are sent at the same time: shape (messages,)."""
    links = cluster.paths(src, dst)
    latency = np.append(cluster.links.latency, 0.0)[links].sum(axis=1)
    busy = _seconds_of_links(cluster, links, np.full(links.shape[1], float(nbytes)))
    return np.asarray(latency + busy[links].max(axis=1, initial=0.0))


def link_kinds(cluster: Cluster) -> Ints:
    """Number the distinct links by bandwidth and latency, NO_LINK last: shape (links + 1,)."""
    bandwidth = np.unique(cluster.links.bandwidth, return_inverse=True)[1]
    latencies, latency = np.unique(cluster.links.latency, return_inverse=True)
    return np.append(bandwidth * latencies.size + latency, NO_LINK).astype(np.int32)


def shapes(kinds: Ints, rows: Ints) -> Longs:
    """For each group the first group of the same shape, shape (groups,).

    ``rows``: the links that the messages of each group take, shape (groups, n). Two groups are of
    one shape when their messages share links in the same pattern, and the links in the same place
    are of the same kind: then all their messages take as long. This holds on any network, however
    irregular.
    """
    known: dict[bytes, int] = {}
    found = np.empty(len(rows), np.int64)
    for some in _batches(rows):
        pattern = np.concatenate([_first_places(rows[some]), kinds[rows[some]]], axis=1)
        for number, row in enumerate(pattern, some.start):
            found[number] = known.setdefault(row.tobytes(), number)
    return found


def loads(cluster: Cluster, rows: Ints, nbytes: Floats) -> tuple[Floats, Floats]:
    """How long the busiest link of each group is busy, in seconds: two arrays of shape (groups,).

    The first counts the bytes of that group alone, the second those of all groups. ``rows``: the
    links that the messages of each group take, shape (groups, n); ``nbytes``: the bytes over the
    link in each column, shape (n,).
    """
    bandwidth = _rates(cluster)
    of_all = _seconds_of_links(cluster, rows, nbytes)
    busy, crowded = np.empty(len(rows)), np.empty(len(rows))
    for some in _batches(rows):
        links = rows[some]
        first = _first_places(links)
        places = first + np.arange(len(links))[:, None] * links.shape[1]
        carried = np.broadcast_to(nbytes, links.shape).ravel()
        own = np.bincount(places.ravel(), carried, links.size).reshape(links.shape)
        busy[some] = (own / bandwidth[links]).max(axis=1, initial=0.0)
        crowded[some] = of_all[links].max(axis=1, initial=0.0)
    return busy, crowded


def _seconds_of_links(cluster: Cluster, rows: Ints, nbytes: Floats) -> Floats:
    """How long each link is busy with the bytes of all groups: shape (links + 1,), NO_LINK last."""
    bandwidth = _rates(cluster)
    of_all = np.zeros(bandwidth.size)
    for some in _batches(rows):
        carried = np.broadcast_to(nbytes, rows[some].shape).ravel()
        of_all += np.bincount((rows[some] % bandwidth.size).ravel(), carried, bandwidth.size)
    return of_all / bandwidth


def _rates(cluster: Cluster) -> Floats:
    """The bandwidth of each link, in bytes/s, and of NO_LINK, which is -1 and so the last."""
    return np.append(cluster.links.bandwidth, np.inf)


def _batches(rows: Ints) -> Iterator[slice]:
    """Slices of the rows, small enough to be worked on at once."""
    size = max(_AT_ONCE // max(rows.shape[1], 1), 1)
    return (slice(start, start + size) for start in range(0, len(rows), size))


def _first_places(rows: Ints) -> Ints:
    """For each entry the first place in its row with the same value, of the same shape."""
    order = np.argsort(rows, axis=1, kind="stable")
    ordered = np.take_along_axis(rows, order, axis=1)
    begins = np.ones(rows.shape, np.bool_)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    run = np.maximum.accumulate(np.where(begins, np.arange(rows.shape[1]), 0), axis=1)
    places = np.empty(rows.shape, np.int32)
    np.put_along_axis(places, order, np.take_along_axis(order, run, axis=1), axis=1)
    return places
