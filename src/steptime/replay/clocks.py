"""The ranks of a carrier, as reading their clocks needs them."""

import numpy as np

from steptime.dtypes import DTYPES
from steptime.measure.carrier import Carrier


class CarrierPeers:
    """All ranks behind a carrier: torch's or MPI's."""

    def __init__(self, carrier: Carrier) -> None:
        self.rank, self.ranks = carrier.rank, carrier.ranks
        self._carrier = carrier
        self._number = carrier.empty(1, DTYPES["float64"])

    def everyone(self, mine: str) -> list[str]:
        """What every rank gives, in their order, on every rank."""
        own = np.frombuffer(mine.encode(), np.uint8).astype(float)  # a carrier gathers numbers
        sizes = self._carrier.gather(np.array([own.size], float)).astype(int).reshape(-1)
        padded = np.zeros(int(sizes.max()))
        padded[: own.size] = own
        every = self._carrier.gather(padded).astype(np.uint8)
        return [row[:size].tobytes().decode() for row, size in zip(every, sizes, strict=True)]

    def send(self, number: float, to: int) -> None:
        """Send a number to a rank."""
        self._carrier.write(self._number, np.array([number]))
        self._carrier.transport.send(self._number, to)()

    def receive(self, source: int) -> float:
        """Wait for a number from a rank."""
        self._carrier.transport.receive(self._number, source)()
        return float(self._carrier.read(self._number)[0])
