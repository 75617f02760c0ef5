"""Link series: bytes on each link over time, in bins whose width doubles as the run gets longer."""

from dataclasses import dataclass

import numpy as np

from steptime.arrays import Floats, Ints
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
    rows = links["row"][used]
    lasting = np.cumsum(network.steps[:bins, rows], axis=0)
    # Where such a message has ended, rounding leaves some -1e-16 of what it carried.
    nbytes = np.maximum(network.series[:bins, rows] + lasting, 0.0)
    return LinkSeries(width, used, nbytes, nbytes / (width * links["bandwidth"][used]))
