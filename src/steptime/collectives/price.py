"""Price: what a schedule costs each rank, and its time under alpha, beta and gamma."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from steptime.arrays import Floats, Longs
from steptime.collectives.execute import slot_offsets
from steptime.collectives.messages import Messages, firsts, messages
from steptime.collectives.schedule import Round, Schedule


@dataclass(frozen=True, eq=False)
class Price:
    """The cost of a schedule; arrays have shape (ranks,), sizes are in bytes.

    ``rounds`` counts those with a message. ``bytes_between_hosts``: bytes that a rank sends to
    ranks of other hosts. ``memory_traffic``: bytes read and written where every rank can read the
    others' memory, counted at the rank that receives: n read and n written for a copy of n bytes,
    2n read and n written for a reduction; a transport that stages data adds its own. ``ports``: the
    most messages that one rank sends, or receives, in one round. Moves within a rank count as
    memory traffic and reduced bytes alone.
    """

    rounds: int
    ports: int
    bytes_sent: Longs
    bytes_received: Longs
    bytes_reduced: Longs
    bytes_between_hosts: Longs
    messages_sent: Longs
    memory_traffic: Longs


def price(schedule: Schedule, nbytes: int) -> Price:
    """The price of ``schedule`` for a vector of ``nbytes`` bytes a rank, cut as by ``execute``.

    It holds one round at a time.
    """
    offsets = np.asarray(slot_offsets(schedule, nbytes))
    hosts = np.asarray(schedule.hosts)
    sent, received, reduced, copied, between, count = np.zeros((6, schedule.ranks), np.int64)
    rounds = ports = 0
    for transfers in schedule.rounds():
        src, dst, reduce = transfers["src"], transfers["dst"], transfers["reduce"]
        size = _sizes(transfers, offsets)
        travelling = np.where(src != dst, size, 0)
        np.add.at(sent, src, travelling)
        np.add.at(received, dst, travelling)
        np.add.at(reduced, dst, np.where(reduce, size, 0))
        np.add.at(copied, dst, np.where(reduce, 0, size))
        np.add.at(between, src, np.where(hosts[src] != hosts[dst], size, 0))
        moved = messages(transfers)
        if moved.src.size:
            rounds += 1
            sends = np.bincount(moved.src, minlength=schedule.ranks)
            ports = max(ports, int(sends.max()), int(np.bincount(moved.dst).max()))
            count += sends
    return Price(
        rounds=rounds,
        ports=ports,
        bytes_sent=sent,
        bytes_received=received,
        bytes_reduced=reduced,
        bytes_between_hosts=between,
        messages_sent=count,
        memory_traffic=2 * copied + 3 * reduced,
    )


def time(schedule: Schedule, nbytes: int, alpha: float, beta: float, gamma: float) -> float:
    """Seconds from the start of all ranks to the end of the last, for ``nbytes`` bytes a rank.

    A message of n bytes takes ``alpha + n * beta`` seconds and its reduction ``n * gamma`` more
    (Thakur, Rabenseifner and Gropp 2005). It begins when both ranks have entered the round and are
    done with their messages before it: a rank sends one at a time and receives one at a time, both
    at once, in the order of the schedule. A rank enters the next round when its messages of this
    one are done and reduced. Copies within a rank take no time.
    """
    return max(round_ends(schedule, nbytes, alpha, beta, gamma), default=0.0)


def times(
    schedule: Schedule, sizes: Sequence[int], alpha: float, beta: float, gamma: float = 0.0
) -> Floats:
    """``time`` for vectors of several sizes, in one pass over the rounds; shape (sizes,)."""
    ended = np.zeros(len(sizes))
    for ended in _round_ends(schedule, sizes, alpha, beta, gamma):  # noqa: B007
        pass
    return ended


def round_ends(
    schedule: Schedule, nbytes: int, alpha: float, beta: float, gamma: float = 0.0
) -> Iterator[float]:
    """The time at which the last rank is done with each round, in seconds, as ``time`` counts."""
    return (float(ends[0]) for ends in _round_ends(schedule, [nbytes], alpha, beta, gamma))


def _round_ends(
    schedule: Schedule, sizes: Sequence[int], alpha: float, beta: float, gamma: float
) -> Iterator[Floats]:
    """``round_ends`` for each of some sizes, shape (sizes,)."""
    offsets = np.stack([slot_offsets(schedule, nbytes) for nbytes in sizes], axis=1)
    entered = np.zeros((schedule.ranks, len(sizes)))
    for transfers in schedule.rounds():
        moved = messages(transfers)
        size = _sizes(transfers, offsets)  # (transfers, sizes)
        travels = moved.of >= 0
        length = np.zeros((moved.src.size, len(sizes)))
        np.add.at(length, moved.of[travels], size[travels])
        reduced = np.zeros_like(entered)
        np.add.at(reduced, transfers["dst"][transfers["reduce"]], size[transfers["reduce"]])
        entered = _delivered(moved, alpha + beta * length, entered) + gamma * reduced
        yield entered.max(axis=0)


def _delivered(moved: Messages, seconds: Floats, entered: Floats) -> Floats:
    """When each rank is done with its messages of a round, shape (ranks, sizes)."""
    out_port, in_port = entered.copy(), entered.copy()
    src, dst = moved.src, moved.dst
    while src.size:
        first = firsts(src, len(entered)) & firsts(dst, len(entered))
        start = np.maximum(out_port[src[first]], in_port[dst[first]])
        out_port[src[first]] = in_port[dst[first]] = start + seconds[first]
        src, dst, seconds = src[~first], dst[~first], seconds[~first]
    return np.maximum(out_port, in_port)


def _sizes(transfers: Round, offsets: Longs) -> Longs:
    """The bytes of each transfer, shape (transfers,), or (transfers, sizes) as ``offsets`` are."""
    first = transfers["first"]
    return np.asarray(offsets[first + transfers["count"]] - offsets[first])
