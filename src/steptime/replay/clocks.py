"""Peers on a replay transport, for reading the clocks of all hosts."""

import numpy as np

from steptime.dtypes import DTYPES
from steptime.measure.transport import BenchTransport


class TransportPeers:
    """All ranks behind a transport: torch's or MPI's."""

    def __init__(self, transport: BenchTransport) -> None:
        self.rank, self.ranks = transport.rank, transport.ranks
        self._transport = transport
        self._number = transport.empty(1, DTYPES["float64"])

    def gather_texts(self, text: str) -> list[str]:
        """The ``text`` of every rank, in the order of the ranks, on every rank."""
        own = np.frombuffer(text.encode(), np.uint8).astype(float)  # a transport gathers numbers
        sizes = self._transport.gather(np.array([own.size], float)).astype(int).reshape(-1)
        padded = np.zeros(int(sizes.max()))
        padded[: own.size] = own
        every = self._transport.gather(padded).astype(np.uint8)
        return [row[:size].tobytes().decode() for row, size in zip(every, sizes, strict=True)]

    def send(self, number: float, to: int) -> None:
        """Send a number to a rank."""
        self._transport.write(self._number, np.array([number]))
        self._transport.send(self._number, to)()

    def receive(self, source: int) -> float:
        """Wait for a number from a rank."""
        self._transport.receive(self._number, source)()
        return float(self._transport.read(self._number)[0])
