"""Calls: the calls of one rank of an MPI program, in their order, as ops."""

from dataclasses import replace
from itertools import chain

from steptime.dtypes import item_bytes
from steptime.program import Collective, Compute, Op, Recv, Send, Wait

ELEMENT = item_bytes("fp32")
"""Bytes of an element: all buffers of the original proxies are fp32."""

Places = tuple[int, ...]


class Calls:
    """The ops of one step of a rank that computes, posts and waits in one thread.

    Posted calls of one kind run on a stream of their own. A blocking call is one that is posted and
    waited for at once. A step must end by computing or waiting.
    """

    def __init__(self) -> None:
        self._ops: list[Op] = []
        self._reached: Places = (-1,)  # the end of the step before

    @property
    def ops(self) -> tuple[Op, ...]:
        """All ops so far."""
        return tuple(self._ops)

    def compute(self, name: str, microseconds: int) -> None:
        """Compute for some microseconds."""
        self._append(Compute(name=name, seconds=microseconds / 1e6))

    def wait(self, name: str, *posted: Places) -> None:
        """Wait until all calls posted at these places have ended."""
        self._append(Wait(name=f"wait for {name}", after=tuple(chain(*posted))))

    def call(self, op: Collective) -> None:
        """Make a blocking collective."""
        self.wait(op.name, self.post(op))

    def post(self, op: Collective | Send | Recv) -> Places:
        """Post a non-blocking call; returns its place, for ``wait``."""
        self._ops.append(replace(op, after=self._reached))
        return (len(self._ops) - 1,)

    def _append(self, op: Compute | Wait) -> None:
        self._ops.append(op)
        self._reached = (len(self._ops) - 1,)


def collective(
    name: str, kind: str, group: tuple[str, ...], elements: int, *, stream: str = ""
) -> Collective:
    """A collective of ``elements`` elements in all, as ``Collective`` counts them."""
    return Collective(
        name=name, kind=kind, group=group, nbytes=elements * ELEMENT, stream=stream or kind
    )


def send(name: str, axis: str, by: int, elements: int, *, tag: int = 0) -> Send:
    """A message; all in one direction follow one another."""
    return Send(
        name=name, axis=axis, by=by, nbytes=elements * ELEMENT, tag=tag, stream=_stream(name)
    )


def recv(name: str, axis: str, by: int, elements: int, *, tag: int = 0) -> Recv:
    """The other end of a message."""
    return Recv(
        name=name, axis=axis, by=by, nbytes=elements * ELEMENT, tag=tag, stream=_stream(name)
    )


def _stream(name: str) -> str:
    """The stream of a message: its name without the number at its end."""
    return name.rstrip("0123456789").rstrip()
