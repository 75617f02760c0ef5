"""Moves: the messages of collectives, and lone ones, as the engine takes them."""

from collections.abc import Iterator
from math import isfinite

import numpy as np

from steptime.arrays import Floats, Ints
from steptime.cluster import Cluster
from steptime.collectives.schedule import Schedule
from steptime.host_memory import require_memory
from steptime.simulate.network import storage
from steptime.simulate.network.engine import make_moves
from steptime.simulate.network.rounds import Batch, Reader, largest_round
from steptime.simulate.network.routes import Routes
from steptime.simulate.network.state import MOVE, NONE, Moves

_SPREAD = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio
_BYTES_OF_TRANSFER = 210  # while a round is made: its moves, the round twice, its messages


def weights(unfairness: float, devices: Ints, rounds: Ints) -> Floats:
    """The weights of messages between hosts, as if drawn between 1 less and 1 more ``unfairness``.

    ``devices``: of senders and receivers, shape (2, messages); the rest is of shape (messages,). A
    message always has the same: a hash of its devices and its round (multiplicative; Knuth, The Art
    of Computer Programming, 6.4). They are multiples of 2^-10.
    """
    src, dst = devices.astype(np.uint64)
    key = src << np.uint64(40) ^ dst << np.uint64(20) ^ (rounds + 1).astype(np.uint64)
    drawn = ((key + np.uint64(1)) * np.uint64(_SPREAD) >> np.uint64(43)) / 2**20 - 1
    return np.asarray(np.maximum(np.round((1 + unfairness * drawn) * 1024), 1) / 1024)


class MoveMaker:
    """Makes the moves of messages between the devices of a cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._routes = Routes(cluster)
        self._reader = Reader(inside=isfinite(cluster.device.reduction))

    def of_collective(
        self, schedule: Schedule, devices: Ints, nbytes: int
    ) -> Iterator[tuple[Moves, bool]]:
        """The messages for a vector of ``nbytes`` bytes a rank, and whether no more follow them.

        At least one Moves, which may be empty. ``devices``: that of each rank, shape (ranks,).
        """
        for batch in self._reader.batches(schedule, nbytes):
            yield self._of_batch(batch, devices), batch.last

    def alone(self, devices: Ints, nbytes: Floats) -> Moves:
        """Lone messages of ``nbytes`` bytes, shape (messages,).

        ``devices``: of senders and receivers, shape (2, messages).
        """
        paths, latency = self._routes(*devices)
        rows = np.zeros(nbytes.size, MOVE)
        rows["nbytes"], rows["latency"] = nbytes, latency
        rows["rank"] = rows["round"] = NONE
        rows["device"], rows["weight"] = devices.T, self._weights(devices, rows["round"])
        return Moves(rows, paths)

    def check_memory(self, schedule: Schedule, devices: Ints) -> None:
        """Raise UsageError when the messages of one round would not fit into memory."""
        if expected := largest_round(schedule):
            paths, _ = self._routes(devices[:1], devices[-1:])
            require_memory(
                expected * (_BYTES_OF_TRANSFER + storage.bytes_a_flow(paths.shape[1])),
                f"a round of about {expected:,.0f} transfers, as the {schedule.collective.name} "
                f"{schedule.algorithm!r} of {schedule.ranks} ranks has one,",
                storage.FEWER_RANKS,
            )

    def _weights(self, devices: Ints, rounds: Ints) -> Floats:
        """The weights of messages from devices to devices in rounds, shape (messages,)."""
        if not self._cluster.unfairness:
            return np.ones(rounds.size)
        src, dst = self._cluster.host_of[devices]
        return np.where(src != dst, weights(self._cluster.unfairness, devices, rounds), 1.0)

    def _of_batch(self, batch: Batch, devices: Ints) -> Moves:
        places = devices[batch.ranks]
        paths, latency = self._routes(*places)
        held = np.zeros(latency.size)
        if self._cluster.send_buffer:
            src, dst = self._cluster.host_of[places]
            held[src != dst] = self._cluster.send_buffer
        costs = latency, held, self._weights(places, batch.round)
        rows = np.empty(latency.size, MOVE)
        make_moves(batch[:-1], places, costs, self._cluster.device.reduction, rows)
        return Moves(rows, paths)
