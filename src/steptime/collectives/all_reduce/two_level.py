"""The two-level all_reduce: within hosts, between hosts, within hosts."""

from collections.abc import Iterator

import numpy as np

from steptime.collectives.algorithm import algorithm
from steptime.collectives.schedule import Round, send


def _chunks(hosts: tuple[int, ...]) -> int:
    """One for each host in the share of each rail."""
    sizes = np.unique(hosts, return_counts=True)[1]
    return int(sizes.min()) * sizes.size


@algorithm("all_reduce", chunks=_chunks)
def two_level(hosts: tuple[int, ...]) -> Iterator[Round]:
    """Reduce_scatter within each host, all_reduce each share between hosts, all_gather within.

    On n hosts of q ranks 2(q - 1) + 2(n - 1) rounds of rings, and only 2(n - 1)/n·S/q bytes from a
    rank to another host. The vector has a share for each of the q rails: the k-th ranks of all
    hosts. Where hosts differ, q is the size of the smallest, and further ranks of the others only
    contribute (Horovod's hierarchical allreduce; UCC, cl/hier, split_rail).
    """
    _, host, sizes = np.unique(hosts, return_inverse=True, return_counts=True)
    count, rails = sizes.size, int(sizes.min())
    by_host = np.argsort(host, kind="stable")
    start = np.cumsum(sizes) - sizes
    place = np.empty_like(host)
    place[by_host] = np.arange(host.size) - np.repeat(start, sizes)

    rank, size = np.arange(host.size), sizes[host]
    neighbour = by_host[start[host] + (place + 1) % size]

    def within(step: int, behind: int, *, reduce: bool) -> Round:
        """Step ``step``, from 1, of the rings in the hosts, which are done at their size."""
        share = (place - behind) % size
        length = np.where((share < rails) & (step < size), count, 0)
        return send(rank, neighbour, share * count, length, reduce=reduce)

    on_rail = by_host[(start[:, None] + np.arange(rails)).ravel()]
    across = by_host[start[(host[on_rail] + 1) % count] + place[on_rail]]

    def between(behind: int, *, reduce: bool) -> Round:
        chunk = place[on_rail] * count + (host[on_rail] - behind) % count
        return send(on_rail, across, chunk, reduce=reduce)

    for step in range(1, int(sizes.max())):
        yield within(step, step, reduce=True)
    for step in range(1, count):
        yield between(step, reduce=True)
    for step in range(1, count):
        yield between(step - 1, reduce=False)
    for step in range(1, int(sizes.max())):
        yield within(step, step - 1, reduce=False)
