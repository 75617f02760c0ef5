"""The operation ``sendrecv`` of nccl-tests: every rank to its right, all at once."""

from steptime.collectives.execute import Vector
from steptime.measure.transport import BenchTransport, Run


def shifted(transport: BenchTransport, send: Vector, receive: Vector) -> Run:
    """Send to the next rank and receive from the one before, as every rank does."""

    def run() -> None:
        arrived = transport.receive(receive, (transport.rank - 1) % transport.ranks)
        left = transport.send(send, (transport.rank + 1) % transport.ranks)
        arrived()
        left()

    return run
