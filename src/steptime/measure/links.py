"""Point-to-point: latency and bandwidth between every pair of ranks."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from steptime.collectives.execute import Vector
from steptime.dtypes import Dtype
from steptime.measure.carrier import Carrier, Run
from steptime.measure.timing import Effort

_WINDOW = 8
"""Messages under way at once when bandwidth is measured."""


@dataclass(frozen=True)
class Pair:
    """What a message from ``src`` to ``dst`` costs: seconds, bytes a second."""

    src: int
    dst: int
    latency_s: float
    """Half of a ping-pong of one element, median."""

    bandwidth: float
    """Of a window of messages one way, in bytes a second."""

    bidirectional: float
    """Of windows both ways at once, both counted."""


def measure_pairs(carrier: Carrier, dtype: Dtype, elements: int, effort: Effort) -> Iterator[Pair]:
    """Measure pair after pair while all others wait; each rank yields all of them, both ways.

    A bandwidth is that of messages of ``elements`` elements, from the first sent to the receipt
    acknowledged.
    """
    for low, high in combinations(range(carrier.ranks), 2):
        own = np.zeros((2, 3))
        carrier.barrier()
        if carrier.rank in (low, high):
            own = _measure(carrier, high if carrier.rank == low else low, dtype, elements, effort)
        figures = carrier.gather(own)[low]
        for way, (src, dst) in enumerate([(low, high), (high, low)]):
            yield Pair(src, dst, *(float(x) for x in figures[way]))


def _measure(
    carrier: Carrier, peer: int, dtype: Dtype, elements: int, effort: Effort
) -> np.ndarray:
    """Latency, bandwidth and bidirectional bandwidth, one row for each way, as the lower sees it.

    A latency is half of a round trip, so it is the same both ways.
    """
    first = carrier.rank < peer
    windows = max(2, effort.iterations // _WINDOW)
    short, ack = carrier.empty(1, dtype), carrier.empty(1, dtype)
    out = [carrier.empty(elements, dtype) for _ in range(_WINDOW)]
    back = [carrier.empty(elements, dtype) for _ in range(_WINDOW)]
    nbytes = _WINDOW * elements * dtype.size

    def send(vector: Vector) -> None:
        carrier.transport.send(vector, peer)()

    def receive(vector: Vector) -> None:
        carrier.transport.receive(vector, peer)()

    def ping_pong() -> None:
        (send if first else receive)(short)
        (receive if first else send)(short)

    def one_way(sends: bool) -> None:
        _exchange(carrier, peer, out if sends else [], [] if sends else back)
        (receive if sends else send)(ack)

    def both_ways() -> None:
        _exchange(carrier, peer, out, back)
        ping_pong()

    latency = _median(carrier, ping_pong, effort.warmup, effort.iterations) / 2
    forth = nbytes / _median(carrier, lambda: one_way(first), 1, windows)
    opposite = nbytes / _median(carrier, lambda: one_way(not first), 1, windows)
    both = 2 * nbytes / _median(carrier, both_ways, 1, windows)
    return np.array([[latency, forth, both], [latency, opposite, both]])


def _exchange(carrier: Carrier, peer: int, out: list[Vector], back: list[Vector]) -> None:
    """Send ``out`` and receive ``back``, all under way at once."""
    waits = [carrier.transport.receive(vector, peer) for vector in back]
    waits += [carrier.transport.send(vector, peer) for vector in out]
    for wait in waits:
        wait()


def _median(carrier: Carrier, run: Run, warmup: int, iterations: int) -> float:
    for _ in range(max(1, warmup)):
        run()
    carrier.finish()
    seconds = [_once(carrier, run) for _ in range(iterations)]
    return float(np.median(seconds))


def _once(carrier: Carrier, run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    carrier.finish()
    return time.perf_counter() - start
