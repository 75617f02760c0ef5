"""Link series: bytes on each link over time, in bins whose width doubles as the run gets longer."""

from dataclasses import dataclass

import numpy as np

from steptime.arrays import Floats, Ints
from steptime.simulate.network.compiled import inner
from steptime.simulate.network.state import BINS, NONE, Network


@dataclass(frozen=True, eq=False)
class LinkSeries:
    """The bytes on each link over time.

    Bin i is the time from ``i * width`` seconds on. ``links``: the numbers of those that ever
    carried a message, shape (used,). ``nbytes``: shape (bins, used). ``utilisation``: bytes over
    what the link could have carried, the same shape; 0 where its bandwidth is infinite.
    """

    width: float
    links: Ints
    nbytes: Floats
    utilisation: Floats


def series_of(network: Network) -> LinkSeries:
    """The series recorded up to now."""
    counts, links = network.counts[0], network.links
    width = float(counts["width"])
    used = np.flatnonzero(links["row"] != NONE).astype(np.int32)
    bins = min(BINS, int(counts["now"] / width) + 1)
    nbytes = network.series[links["row"][used], :bins].T
    return LinkSeries(width, used, nbytes, nbytes / (width * links["bandwidth"][used]))


def give_rows(net: Network, paths: Ints) -> None:
    """Give all links of some paths a row in the series, in the order in which they come."""
    rows = net.links["row"]
    new = paths[(rows[paths] == NONE) & (paths != NONE)]
    if new.size:
        links = new[np.sort(np.unique(new, return_index=True)[1])]
        first = net.counts["rows"][0]
        rows[links] = first + np.arange(links.size)
        net.counts["rows"] += links.size


@inner
def move(net: Network, time: float) -> None:
    """Advance the time."""
    net.counts[0].now = time
    widen(net, time)


@inner
def widen(net: Network, time: float) -> None:
    """Double the width of the bins until they reach up to a time."""
    counts = net.counts[0]
    factor = 1
    while time > BINS * counts.width:
        counts.width *= 2
        counts.bins /= 2
        factor = min(2 * factor, BINS)
    if factor > 1:
        for number in range(len(net.series)):
            row = net.series[number]
            for place in range(BINS):
                total = 0.0
                for old in range(min(place * factor, BINS), min((place + 1) * factor, BINS)):
                    total += row[old]
                row[place] = total


@inner
def record(net: Network, path: Ints, hops: int, nbytes: float, since: float, until: float) -> None:
    """Add the bytes that a message carried evenly over its path between two times."""
    counts = net.counts[0]
    width, bins = counts.width, counts.bins  # multiplied by: a division takes longer than all else
    first, last = min(int(since * bins), BINS - 1), min(int(until * bins), BINS - 1)
    for hop in range(hops):
        row = net.series[net.links[path[hop]].row]
        if first == last:
            row[first] += nbytes
        else:
            rate = nbytes / (until - since)
            row[first] += rate * ((first + 1) * width - since)
            for between in range(first + 1, last):
                row[between] += rate * width
            row[last] += rate * (until - last * width)
