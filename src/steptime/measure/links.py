"""Links: latency and bandwidth of messages between every pair of ranks."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from steptime import clock
from steptime.collectives.execute import Vector
from steptime.dtypes import Dtype
from steptime.measure.timing import Effort
from steptime.measure.transport import BenchTransport, Run

_WINDOW = 8
"""Messages in flight at once when bandwidth is measured."""


@dataclass(frozen=True)
class Pair:
    """The cost of messages from ``src`` to ``dst``: seconds, and bytes per second."""

    src: int
    dst: int
    latency_s: float
    """Half of a ping-pong of one element, median."""

    bandwidth: float
    """Bandwidth of a window of messages in one direction, bytes/s."""

    bidirectional: float
    """Bandwidth of windows in both directions at once, the sum of both, bytes/s."""


def measure_pairs(
    transport: BenchTransport, dtype: Dtype, elements: int, effort: Effort
) -> Iterator[Pair]:
    """Measure pair after pair while all others wait; each rank yields both directions of all.

    A bandwidth is that of messages of ``elements`` elements, from the first sent to the receipt
    acknowledged.
    """
    for low, high in combinations(range(transport.ranks), 2):
        own = np.zeros((2, 3))
        transport.barrier()
        if transport.rank in (low, high):
            own = _measure(
                transport, high if transport.rank == low else low, dtype, elements, effort
            )
        figures = transport.gather(own)[low]
        for direction, (src, dst) in enumerate([(low, high), (high, low)]):
            yield Pair(src, dst, *(float(x) for x in figures[direction]))


def _measure(
    transport: BenchTransport, peer: int, dtype: Dtype, elements: int, effort: Effort
) -> np.ndarray:
    """Latency, bandwidth and bidirectional bandwidth, a row a direction, from the lower rank.

    A latency is half of a round trip, so it is the same in both directions.
    """
    first = transport.rank < peer
    windows = max(2, effort.iterations // _WINDOW)
    short, ack = transport.empty(1, dtype), transport.empty(1, dtype)
    out = [transport.empty(elements, dtype) for _ in range(_WINDOW)]
    back = [transport.empty(elements, dtype) for _ in range(_WINDOW)]
    nbytes = _WINDOW * elements * dtype.size

    def send(vector: Vector) -> None:
        transport.send(vector, peer)()

    def receive(vector: Vector) -> None:
        transport.receive(vector, peer)()

    def ping_pong() -> None:
        (send if first else receive)(short)
        (receive if first else send)(short)

    def one_way(sends: bool) -> None:
        _exchange(transport, peer, out if sends else [], [] if sends else back)
        (receive if sends else send)(ack)

    def both_ways() -> None:
        _exchange(transport, peer, out, back)
        ping_pong()

    latency = _median(transport, ping_pong, effort.warmup, effort.iterations) / 2
    forth = nbytes / _median(transport, lambda: one_way(first), 1, windows)
    opposite = nbytes / _median(transport, lambda: one_way(not first), 1, windows)
    both = 2 * nbytes / _median(transport, both_ways, 1, windows)
    return np.array([[latency, forth, both], [latency, opposite, both]])


def _exchange(transport: BenchTransport, peer: int, out: list[Vector], back: list[Vector]) -> None:
    """Send ``out`` and receive ``back``, all at the same time."""
    waits = [transport.receive(vector, peer) for vector in back]
    waits += [transport.send(vector, peer) for vector in out]
    for wait in waits:
        wait()


def _median(transport: BenchTransport, run: Run, warmup: int, iterations: int) -> float:
    for _ in range(max(1, warmup)):
        run()
    transport.finish()
    seconds = [_once(transport, run) for _ in range(iterations)]
    return float(np.median(seconds))


def _once(transport: BenchTransport, run: Callable[[], None]) -> float:
    start = clock.now()
    run()
    transport.finish()
    return clock.now() - start
