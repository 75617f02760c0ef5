"""ScheduleTransport: the messages of the schedules that carry out a group's collectives."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import count
from typing import Protocol

from torch import Tensor

from steptime.backend.host import Call, HostGroup, Kind
from steptime.backend.lanes import Crew, Lane


class ScheduleTransport(Protocol):
    """Messages between the ranks of a group, each within one collective call of theirs.

    Those from one rank to another arrive in the order of sending. Raises as Engine does.
    """

    def agree(self, call: Call, sent: Sequence[int] = (), expected: Sequence[int] = ()) -> bool:
        """Return when all ranks have come here with the same call, or raise on each of them.

        Where sizes differ by pair, ``sent`` and ``expected`` hold the elements to and from each
        rank. Returns whether all of them, on all ranks, are the same.
        """

    def begin_send(self, call: Call, tensor: Tensor, to: int) -> Callable[[], None]:
        """Begin to send; call the result to wait until ``tensor`` may change."""

    def begin_receive(self, call: Call, tensor: Tensor, source: int) -> Callable[[], None]:
        """Begin to receive; call the result to wait until ``tensor`` is there."""

    def close(self) -> None:
        """Free connections and threads."""


class HostTransport:
    """The ScheduleTransport of ranks that share a host.

    A message that fits into the mailbox is put there at once. A larger one needs its receiver, so a
    thread sends it, one thread for each receiver: two ranks may thus send to each other first.
    """

    def __init__(self, host: HostGroup) -> None:
        self._host = host
        # The tags of users are not negative. A tag of its own for each message keeps their order.
        self._sent: dict[int, count[int]] = defaultdict(lambda: count(-1, -1))
        self._received: dict[int, count[int]] = defaultdict(lambda: count(-1, -1))
        self._crew = crew = Crew()
        self._lanes: dict[int, Lane] = defaultdict(lambda: Lane("the messages of a schedule", crew))

    def agree(self, call: Call, sent: Sequence[int] = (), expected: Sequence[int] = ()) -> bool:
        """As ScheduleTransport says."""
        return self._host.agree(call, sent, expected)

    def begin_send(self, call: Call, tensor: Tensor, to: int) -> Callable[[], None]:
        """As ScheduleTransport says."""
        message = Call.of(Kind.SEND, tensor.dtype, tensor.numel(), to, call.op)
        tag = next(self._sent[to])
        if self._host.try_send(message, tensor, to, tag):
            return nothing
        task = self._lanes[to].start((), self._host.send, message, tensor, to, tag)

        def wait() -> None:
            task.wait()

        return wait

    def begin_receive(self, call: Call, tensor: Tensor, source: int) -> Callable[[], None]:
        """As ScheduleTransport says."""
        message = Call.of(Kind.RECV, tensor.dtype, tensor.numel(), source, call.op)
        tag = next(self._received[source])

        def wait() -> None:
            self._host.recv(message, tensor, source, tag)

        return wait

    def close(self) -> None:
        """End the threads; the group's owner closes the group."""
        self._crew.close(self._lanes.values())


def nothing() -> None:
    """The wait for a message that has already been sent."""
