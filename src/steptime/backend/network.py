"""NetworkGroup: collectives among ranks on different hosts, made of gloo's messages.

Only bytes travel, so any dtype can; elements are combined here, in the order of the ranks. Before
data moves, the ranks exchange their calls and check them: a gloo process that receives a message
longer than it expects ends without an error.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any

import torch
from torch import Tensor

from steptime.backend.engine import as_bytes, even_counts
from steptime.backend.flatten import parts
from steptime.backend.folding import fold
from steptime.backend.host import Call
from steptime.backend.reasons import Reasons, Receive
from steptime.backend.reduction import Reduction
from steptime.errors import SteptimeError
from steptime.world import compat
from steptime.world.environment import LostContactError

_ONE_SHOT_BYTES = 16 << 10
"""Up to this size latency dominates, and one round of whole vectors beats two of parts."""

_COLLECTIVE_TAG = 0
_FIRST_USER_TAG = 1
_PAYLOAD_TAGS = range(1 << 30, (1 << 31) - 1)


class NetworkGroup:
    """An Engine whose ranks may be on any hosts that reach each other by TCP."""

    def __init__(
        self,
        store: compat.Store,
        rank: int,
        ranks: int,
        timeout_s: float,
        names: Sequence[int],
        reasons: Reasons,
    ) -> None:
        """Meet in ``store``. ``names`` are what errors call the ranks.

        Raises SteptimeError when the ranks cannot connect to each other.
        """
        self.rank = rank
        self.ranks = ranks
        self._timeout_s = timeout_s
        self._names = names
        self._peers = [(rank + i) % ranks for i in range(1, ranks)]
        self._reasons = reasons
        self._failure: SteptimeError | None = None
        self._number = 0
        self._payload_tags = count()
        self._sent: Counter[tuple[int, int]] = Counter()  # messages, by receiver and tag
        self._received: Counter[tuple[int, int]] = Counter()  # and by sender and tag
        try:
            self._gloo: Any = compat.gloo(store, rank, ranks, timedelta(seconds=timeout_s))
        except RuntimeError as error:
            raise SteptimeError(
                f"rank {self._names[rank]} could not connect to the other ranks "
                f"({str(error).splitlines()[0]}): name the network interface that they share in "
                "GLOO_SOCKET_IFNAME"
            ) from error

    def barrier(self, call: Call) -> None:
        """Return when all ranks are here."""
        self.agree(call)

    def all_reduce(self, call: Call, tensor: Tensor, op: Reduction) -> None:
        """Each rank reduces its part and all gather the parts; one round when small."""
        self.agree(call)
        if tensor.nbytes <= _ONE_SHOT_BYTES:
            fold(op, self._collect(call, tensor), tensor)
            return
        blocks = parts(tensor, even_counts(tensor.numel(), self.ranks))
        self._reduce_part(call, blocks[self.rank], blocks, op)
        self._share(call, blocks)

    def broadcast(self, call: Call, tensor: Tensor, root: int) -> None:
        """The root scatters the vector and all gather it; it sends all of it when small."""
        self.agree(call)
        if tensor.nbytes <= _ONE_SHOT_BYTES:
            outgoing = dict.fromkeys(self._peers, tensor) if self.rank == root else {}
            self._exchange(call, {} if self.rank == root else {root: tensor}, outgoing)
            return
        blocks = parts(tensor, even_counts(tensor.numel(), self.ranks))
        self._deal(call, blocks[self.rank], blocks, root)
        self._share(call, blocks)

    def reduce(self, call: Call, tensor: Tensor, root: int, op: Reduction) -> None:
        """Each rank reduces its part of the vector and the root gathers the parts."""
        self.agree(call)
        blocks = parts(tensor, even_counts(tensor.numel(), self.ranks))
        part = blocks[self.rank] if self.rank == root else torch.empty_like(blocks[self.rank])
        self._reduce_part(call, part, blocks, op)
        self._bring(call, blocks, part, root)

    def all_gather(self, call: Call, outputs: Sequence[Tensor], tensor: Tensor) -> None:
        """Every rank sends its vector to every other."""
        self.agree(call)
        outputs[self.rank].copy_(tensor)
        self._share(call, outputs)

    def reduce_scatter(
        self, call: Call, output: Tensor, inputs: Sequence[Tensor], op: Reduction
    ) -> None:
        """Every rank sends to each other what that one must reduce."""
        self.agree(call)
        self._reduce_part(call, output, inputs, op)

    def gather(
        self, call: Call, outputs: Sequence[Tensor] | None, tensor: Tensor, root: int
    ) -> None:
        """Every rank sends its vector to the root."""
        self.agree(call)
        if outputs is not None:
            outputs[root].copy_(tensor)
        self._bring(call, outputs or (), tensor, root)

    def scatter(
        self, call: Call, output: Tensor, inputs: Sequence[Tensor] | None, root: int
    ) -> None:
        """The root sends each rank its part."""
        self.agree(call)
        self._deal(call, output, inputs or (), root)
        if inputs is not None:
            output.copy_(inputs[root])

    def all_to_all(self, call: Call, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
        """Every rank sends each other its part."""
        self.agree(call, [t.numel() for t in inputs], [t.numel() for t in outputs])
        own = inputs[self.rank].clone()
        self._exchange(
            call, {p: outputs[p] for p in self._peers}, {p: inputs[p] for p in self._peers}
        )
        outputs[self.rank].copy_(own)

    def send(self, call: Call, tensor: Tensor, to: int, tag: int) -> None:
        """Send a header with the user's ``tag``, then the data with a tag that the header names."""
        payload_tag = _PAYLOAD_TAGS[next(self._payload_tags) % len(_PAYLOAD_TAGS)]
        header = _header(call, [payload_tag])
        works = [self._live().send([header], to, tag + _FIRST_USER_TAG)]
        if tensor.nbytes:
            works.append(self._live().send([as_bytes(tensor)], to, payload_tag))
        for work in works:
            self._wait(work, to, f"{call}")
        self._sent[to, tag] += 1

    def try_send(self, call: Call, tensor: Tensor, to: int, tag: int) -> bool:  # noqa: ARG002
        """Always False: gloo does not say whether a message can be sent without waiting."""
        return False

    def recv(self, call: Call, tensor: Tensor, source: int | None, tag: int) -> int:
        """Receive a header, check it, and receive the data that it announces."""
        header = _header(call, [0])
        if source is None:
            work = self._live().recv_anysource([header], tag + _FIRST_USER_TAG)
            self._wait(work, None, f"{call}")
            source = int(work._source_rank())
        else:
            work = self._live().recv([header], source, tag + _FIRST_USER_TAG)
            self._wait(work, source, f"{call}", partial(self._deadlock, call, source, tag))
        sent = _decode(header)
        if (sent.dtype, sent.elements) != (call.dtype, call.elements):
            raise SteptimeError(
                f"rank {self._names[source]} called {sent} and rank {self._names[self.rank]} "
                f"called {call}: send and receive the same dtype and number of elements"
            )
        if tensor.nbytes:
            payload = self._live().recv([as_bytes(tensor)], source, int(header[-1]))
            self._wait(payload, source, f"{call}")
        self._received[source, tag] += 1
        return source

    def close(self) -> None:
        """Close the connections to the other ranks."""
        if self._failure is None:
            self._failure = LostContactError("this rank has left the group")
        # Nothing but its end makes gloo close its connections.
        self._gloo = None

    def fail(self, error: SteptimeError) -> SteptimeError:
        """Break the group; the others lose contact, and read the first reason in the store."""
        if self._failure is None:
            self._failure = error
            # The reason first, then the end of the connections, upon which the others look for it.
            self._failure = type(error)(self._reasons.first(str(error)))
            self._gloo = None
        return self._failure

    def agree(self, call: Call, sent: Sequence[int] = (), expected: Sequence[int] = ()) -> bool:
        """Return when all ranks have come here with the same call, or raise on each of them.

        Where sizes differ by pair, ``sent`` and ``expected`` hold the elements to and from each
        rank. Returns whether all of them, on all ranks, are the same.
        """
        self._number += 1
        sizes = [*sent, *expected] or [0] * 2 * self.ranks
        header = _header(call, sizes)
        headers = self._collect(call, header)
        calls = [_decode(header) for header in headers]
        if any(other != calls[0] for other in calls):
            raise self.fail(SteptimeError(self._disagreement(calls)))
        rows = torch.stack([header[-len(sizes) :] for header in headers])
        wrong = (rows[:, : self.ranks] != rows[:, self.ranks :].T).nonzero().tolist()
        if wrong:
            source, to = wrong[0]
            raise self.fail(
                SteptimeError(
                    f"in call {self._number}, {call}, rank {self._names[source]} sends "
                    f"{rows[source, to]} elements to rank {self._names[to]}, which expects "
                    f"{rows[to, self.ranks + source]}"
                )
            )
        return bool((rows == rows[0, 0]).all())

    def begin_send(self, call: Call, tensor: Tensor, to: int) -> Callable[[], None]:
        """Begin to send within a collective; call the result to wait until it has left."""
        work = self._live().send([as_bytes(tensor)], to, _COLLECTIVE_TAG)
        return lambda: self._wait(work, to, f"{call} (call number {self._number})")

    def begin_receive(self, call: Call, tensor: Tensor, source: int) -> Callable[[], None]:
        """Begin to receive within a collective; call the result to wait for ``tensor``."""
        work = self._live().recv([as_bytes(tensor)], source, _COLLECTIVE_TAG)
        return lambda: self._wait(work, source, f"{call} (call number {self._number})")

    def _live(self) -> Any:
        """The gloo group, unless it failed."""
        if self._failure is not None:
            raise self._failure
        return self._gloo

    def _disagreement(self, calls: Sequence[Call]) -> str:
        callers: dict[str, list[str]] = {}
        for name, call in zip(self._names, calls, strict=True):
            callers.setdefault(str(call), []).append(str(name))
        return f"the ranks disagree in call number {self._number}: " + "; ".join(
            f"rank{'s' * (len(names) > 1)} {', '.join(names)} called {call}"
            for call, names in callers.items()
        )

    def _collect(self, call: Call, tensor: Tensor) -> list[Tensor]:
        """The ``tensor`` of every rank, by an all_gather."""
        collected = [torch.empty_like(tensor) for _ in range(self.ranks)]
        collected[self.rank] = tensor
        self._share(call, collected)
        return collected

    def _share(self, call: Call, tensors: Sequence[Tensor]) -> None:
        """All-gather in place: fill ``tensors[i]`` with rank i's own ``tensors[i]``."""
        own = tensors[self.rank]
        self._exchange(call, {p: tensors[p] for p in self._peers}, dict.fromkeys(self._peers, own))

    def _reduce_part(
        self, call: Call, part: Tensor, tensors: Sequence[Tensor], op: Reduction
    ) -> None:
        """Fill ``part`` with the reduction of all ranks' ``tensors[rank]``."""
        own = tensors[self.rank]
        contributions = [torch.empty_like(own) for _ in range(self.ranks)]
        contributions[self.rank] = own.clone()  # part may lie anywhere in it
        self._exchange(
            call, {p: contributions[p] for p in self._peers}, {p: tensors[p] for p in self._peers}
        )
        fold(op, contributions, part)

    def _bring(self, call: Call, outputs: Sequence[Tensor], tensor: Tensor, root: int) -> None:
        """Gather the other ranks' tensors in the ``outputs`` of ``root``."""
        if self.rank == root:
            self._exchange(call, {p: outputs[p] for p in self._peers}, {})
        else:
            self._exchange(call, {}, {root: tensor})

    def _deal(self, call: Call, output: Tensor, inputs: Sequence[Tensor], root: int) -> None:
        """Scatter ``inputs`` of ``root`` to the ``output`` of each other rank."""
        if self.rank == root:
            self._exchange(call, {}, {p: inputs[p] for p in self._peers})
        else:
            self._exchange(call, {root: output}, {})

    def _exchange(
        self, call: Call, arrivals: Mapping[int, Tensor], departures: Mapping[int, Tensor]
    ) -> None:
        arriving = [self.begin_receive(call, t, p) for p, t in arrivals.items() if t.nbytes]
        leaving = [self.begin_send(call, t, p) for p, t in departures.items() if t.nbytes]
        for wait in arriving + leaving:
            wait()

    def _wait(
        self,
        work: compat.Work,
        peer: int | None,
        what: str,
        deadlock: Callable[[], str | None] = lambda: None,
    ) -> None:
        try:
            work.wait()
        except RuntimeError as error:
            own = f"rank {self._names[self.rank]}"
            name = "another rank" if peer is None else f"rank {self._names[peer]}"
            limit = f"the timeout of {self._timeout_s:g} s"
            if self._failure is None and (circle := deadlock()):
                lost = f"deadlock, at {limit}: {circle}"
            elif "imed out" in str(error):
                lost = f"{own} reached {limit} waiting for {name} in {what}"
            else:
                lost = f"{own} lost {name} in {what}"
            raise self.fail(LostContactError(lost)) from error

    def _deadlock(self, call: Call, source: int, tag: int) -> str | None:
        """The circle in which a receive waits, in words."""
        names = self._names
        sent = {f"{names[to]}, {of}": number for (to, of), number in self._sent.items()}
        received = self._received[source, tag]
        receive = Receive(names[source], f"{call}, tag {tag}", tag, received, sent)
        return self._reasons.deadlock(names[self.rank], receive)


def _header(call: Call, sizes: Sequence[int]) -> Tensor:
    """A call, and the sizes that go with it, as a vector of int64."""
    return torch.tensor([*call.words.cast("B").cast("q"), *sizes])


def _decode(header: Tensor) -> Call:
    return Call.decode(memoryview(header.numpy().tobytes()).cast("Q")[:8])
