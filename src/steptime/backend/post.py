"""Post: the messages of one rank of a group over sockets, and how the group fails.

Errors name ranks as users know them. Whoever fails tells why in the store, then ends its
connections; the others lose contact with it and read there what the first reason was.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache, partial

from torch import Tensor

from steptime.backend.engine import as_bytes
from steptime.backend.host import Call
from steptime.backend.reasons import Reasons, Stuck
from steptime.backend.sockets import LostPeerError, Mesh, Receipt, Sending
from steptime.errors import SteptimeError
from steptime.world.environment import LostContactError


class Post:
    """Messages by tag over a mesh; each wait lasts ``timeout_s`` at most.

    ``names`` are what errors call the ranks.
    """

    def __init__(
        self, mesh: Mesh, rank: int, names: Sequence[int], timeout_s: float, reasons: Reasons
    ) -> None:
        self._mesh = mesh
        self._rank = rank
        self._names = names
        self._timeout_s = timeout_s
        self._reasons = reasons
        self._failure: SteptimeError | None = None
        self._sent: Counter[tuple[int, int]] = Counter()  # by receiver and tag
        self._received: Counter[tuple[int, int]] = Counter()  # by sender and tag

    def send(self, call: Call, tensor: Tensor, to: int, tag: int) -> None:
        """Send a message of a user, with its tag."""
        left = self.try_send(call, tensor, to, tag)
        if callable(left):
            left()

    def try_send(self, call: Call, tensor: Tensor, to: int, tag: int) -> bool | Callable[[], None]:
        """Begin to send; the result, if not True, waits until ``tensor`` may be changed again."""
        number = self._sent[to, tag]
        self._sent[to, tag] = number + 1
        sending = self.put(call, memory(tensor), to, tag)
        if sending.done:
            return True
        circle = partial(self._deadlock, call, to, tag, number, sends=True)
        return lambda: self.wait(sending, to, call, deadlock=circle)

    def recv(self, call: Call, tensor: Tensor, source: int | None, tag: int) -> int:
        """Receive a message of a user and check that it is what was expected."""
        receipt = self.ask(source, tag, memory(tensor))
        if source is None:
            self.wait(receipt, None, call)
            source = receipt.source
        else:
            number = self._received[source, tag]
            circle = partial(self._deadlock, call, source, tag, number, sends=False)
            self.wait(receipt, source, call, deadlock=circle)
        sent = decoded(receipt.call)
        if not sent.has_size_of(call):
            raise SteptimeError(
                f"rank {self._names[source]} called {sent} and rank {self._names[self._rank]} "
                f"called {call}: send and receive the same dtype and number of elements"
            )
        self._received[source, tag] += 1
        return source

    def put(self, call: Call, payload: memoryview, to: int, tag: int) -> Sending:
        """Begin to send bytes, which must stay as they are until they have left."""
        self._raise_failure()
        return self._mesh.send(call.encoded, to, tag, payload)

    def ask(self, source: int | None, tag: int, target: memoryview | None = None) -> Receipt:
        """Ask for a message, of any rank where ``source`` is None."""
        self._raise_failure()
        return self._mesh.receive(source, tag, target)

    def wait(
        self,
        request: Receipt | Sending,
        peer: int | None,
        call: Call,
        number: int = 0,
        deadlock: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Wait for a message of a call; ``number`` is that of a collective.

        Raises LostContactError, and breaks the group, when it does not come.
        """
        try:
            self._mesh.wait(request, self._timeout_s)
        except (LostPeerError, TimeoutError) as error:
            what = f"{call} (call number {number})" if number else f"{call}"
            own = f"rank {self._names[self._rank]}"
            name = "another rank" if peer is None else f"rank {self._names[peer]}"
            limit = f"the timeout of {self._timeout_s:g} s"
            if self._failure is None and (circle := deadlock()):
                lost = f"deadlock, at {limit}: {circle}"
            elif isinstance(error, TimeoutError):
                lost = f"{own} reached {limit} waiting for {name} in {what}"
            else:
                lost = f"{own} lost {name} in {what}"
            raise self.fail(LostContactError(lost)) from error

    def fail(self, error: SteptimeError) -> SteptimeError:
        """Break the group; returns the error that all of its ranks raise from here on."""
        if self._failure is None:
            self._failure = error
            # The reason first, then the end of the connections, upon which the others look for it.
            self._failure = type(error)(self._reasons.first(str(error)))
            self._mesh.close()
        return self._failure

    def close(self) -> None:
        """Close the connections to the other ranks."""
        if self._failure is None:
            self._failure = LostContactError("this rank has left the group")
        self._mesh.close()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _deadlock(self, call: Call, peer: int, tag: int, number: int, *, sends: bool) -> str | None:
        """The circle in which a message waits, in words."""
        sent, received = (
            {f"{self._names[rank]}, {of}": count for (rank, of), count in counts.items()}
            for counts in (self._sent, self._received)
        )
        doing = f"{call}, tag {tag}"
        stuck = Stuck(self._names[peer], doing, sends, tag, number, sent, received)
        return self._reasons.deadlock(self._names[self._rank], stuck)


def memory(tensor: Tensor) -> memoryview:
    """The bytes of a vector."""
    return as_bytes(tensor).numpy().data


@lru_cache(maxsize=256)
def decoded(call: bytes) -> Call:
    """The call that was encoded in the head of a message."""
    return Call.decode(memoryview(call).cast("Q"))
