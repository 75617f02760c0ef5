"""The operation ``sendrecv`` of nccl-tests: every rank to its right, all at once."""

from typing import Protocol

from steptime.collectives.execute import Transport, Vector
from steptime.measure.carrier import Run


class _Place(Protocol):
    rank: int
    ranks: int
    transport: Transport


def shifted(place: _Place, send: Vector, receive: Vector) -> Run:
    """Send to the next rank and receive from the one before, as every rank does."""

    def run() -> None:
        arrived = place.transport.receive(receive, (place.rank - 1) % place.ranks)
        left = place.transport.send(send, (place.rank + 1) % place.ranks)
        arrived()
        left()

    return run
