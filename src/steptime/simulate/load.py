"""Load: the bytes that a step moves by rank and by link, counted from its plan."""

from dataclasses import dataclass

import numpy as np

from steptime.arrays import Floats, Ints
from steptime.cluster import Cluster
from steptime.program.pair_bytes import MOST_PAIRED
from steptime.simulate.plan import Plan

_AT_ONCE = 1 << 18  # paths held at a time


@dataclass(frozen=True, eq=False)
class Load:
    """Bytes of one step: ``sent`` and ``received`` by each rank, shape (ranks,), and on each link.

    ``links``: shape (links,). ``messages``: their number. ``pairs``: bytes from each rank to each
    other, shape (ranks, ranks), None where there are more ranks than MOST_PAIRED.
    """

    sent: Floats
    received: Floats
    links: Floats
    messages: int
    pairs: Floats | None


def load(plan: Plan, cluster: Cluster, devices: Ints) -> Load:
    """The load of a step whose ranks are on ``devices``, shape (ranks,)."""
    ranks = devices.size
    sent, received = np.zeros(ranks), np.zeros(ranks)
    links = np.zeros(cluster.links.bandwidth.size)
    messages = float(sum(int(one.times.sum()) for one in plan.messages))
    pairs = np.zeros((ranks, ranks)) if ranks <= MOST_PAIRED else None

    def add(src: Ints, dst: Ints, nbytes: Floats) -> None:
        """Ranks that send to ranks, and how much, all of shape (n,)."""
        sent[:] += np.bincount(src, nbytes, minlength=ranks)
        received[:] += np.bincount(dst, nbytes, minlength=ranks)
        if pairs is not None:
            np.add.at(pairs, (src, dst), nbytes)
        for start in range(0, src.size, _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            path = cluster.paths(devices[src[some]], devices[dst[some]])
            # NO_LINK, -1, is counted in one place more
            carried = np.repeat(nbytes[some], path.shape[1])
            links[:] += np.bincount(path.ravel() + 1, carried, minlength=links.size + 1)[1:]

    for one in plan.messages:
        add(one.ranks[:, 0], one.ranks[:, 1], np.asarray(one.times * one.nbytes, np.float64))
    for assignment in plan.assignments:
        messages += assignment.sent.messages * float(assignment.times.sum())
        src, dst = (
            assignment.ranks[:, assignment.sent.src],
            assignment.ranks[:, assignment.sent.dst],
        )
        add(src.ravel(), dst.ravel(), np.outer(assignment.times, assignment.sent.nbytes).ravel())
    return Load(sent, received, links, round(messages), pairs)
