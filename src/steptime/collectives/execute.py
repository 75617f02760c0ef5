"""Executing one rank's part of a schedule, on any vectors over any transport."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

from steptime.collectives.schedule import Round, Schedule

Vector = Any
"""A 1-D NumPy array or torch tensor: slices of it are views, and ``a[:] = b`` copies."""


class Transport(Protocol):
    """Messages between ranks; those from one rank to another arrive in the order of sending."""

    @property
    def early(self) -> bool:
        """Whether a message may be asked for a round before the one in which it is sent."""

    def send(self, vector: Vector, to: int) -> Callable[[], None]:
        """Begin to send contiguous ``vector``; call the result to wait until it may change."""

    def receive(self, vector: Vector, source: int) -> Callable[[], None]:
        """Begin to receive into contiguous ``vector``; call the result to wait for it."""


@dataclass(frozen=True)
class Piece:
    """A range of this rank's slots that a message is sent from, or received into."""

    first: int
    count: int
    reduce: bool = False


@dataclass(frozen=True)
class Message:
    """One rank's side of a message of one round: its peer and its pieces."""

    peer: int
    pieces: tuple[Piece, ...]

    @property
    def in_place(self) -> bool:
        """Whether it can be received directly into its slots: one piece, not to be reduced."""
        return len(self.pieces) == 1 and not self.pieces[0].reduce


@dataclass(frozen=True)
class LocalRound:
    """The part of one rank in one round."""

    sends: tuple[Message, ...]
    receives: tuple[Message, ...]
    copies: tuple[tuple[Piece, Piece], ...]
    early: tuple[Message, ...] = ()
    """Those receives that are asked for in the round before already."""

    @cached_property
    def late(self) -> tuple[Message, ...]:
        """The other receives."""
        return tuple(message for message in self.receives if message not in self.early)

    @property
    def touched(self) -> set[int]:
        """The slots that are read or written."""
        pieces = [piece for copy in self.copies for piece in copy]
        for message in (*self.sends, *self.receives):
            pieces += message.pieces
        return {slot for piece in pieces for slot in range(piece.first, piece.first + piece.count)}


def local_rounds(schedule: Schedule, rank: int) -> tuple[LocalRound, ...]:
    """The part of ``rank`` in each round in which it does anything."""
    every = (_local_round(transfers, rank) for transfers in schedule.rounds())
    rounds = [r for r in every if r.sends or r.receives or r.copies]
    later = [_with_early(one, before) for before, one in pairwise(rounds)]
    return (*rounds[:1], *later)


def _with_early(one: LocalRound, before: LocalRound) -> LocalRound:
    """The round, with what may be asked for in the round ``before`` told.

    That is what lands in a buffer of its own, or in slots that the round before leaves alone; and
    what follows a message from the same peer: another peer, asked early, would send while it still
    sends to others, and all of these would be late for sharing its link.
    """
    touched, peers = before.touched, {message.peer for message in before.receives}

    def disturbs(message: Message) -> bool:
        piece = message.pieces[0]
        there = range(piece.first, piece.first + piece.count)
        return message.in_place and not touched.isdisjoint(there)

    early = (m for m in one.receives if m.peer in peers and not disturbs(m))
    return replace(one, early=tuple(early))


def _local_round(transfers: Round, rank: int) -> LocalRound:
    inside = transfers["src"] == transfers["dst"]
    sent = transfers[(transfers["src"] == rank) & ~inside]
    received = transfers[(transfers["dst"] == rank) & ~inside]
    copied = transfers[(transfers["src"] == rank) & inside]
    return LocalRound(
        sends=tuple(_messages(sent, "dst", "first")),
        receives=tuple(_messages(received, "src", "into")),
        copies=tuple(
            (
                Piece(int(row["first"]), int(row["count"])),
                Piece(int(row["into"]), int(row["count"]), bool(row["reduce"])),
            )
            for row in copied
        ),
    )


def _messages(transfers: Round, peer: str, start: str) -> Iterator[Message]:
    for other in dict.fromkeys(transfers[peer].tolist()):
        rows = transfers[transfers[peer] == other]
        columns = (rows[name].tolist() for name in (start, "count", "reduce"))
        yield Message(other, tuple(Piece(*row) for row in zip(*columns, strict=True)))


def slot_offsets(schedule: Schedule, elements: int) -> tuple[int, ...]:
    """Where each slot begins in a rank's memory, and where the last ends, in elements.

    The chunks of a vector of ``elements`` elements are as even as possible. Where a schedule has
    slots behind the vector, into which any chunk may move, all slots are as long as the longest
    chunk, and the vector's last elements are padding unless its chunks divide it.
    """
    chunks = schedule.chunks
    if schedule.slots > chunks:
        longest = -(-elements // chunks)
        return tuple(slot * longest for slot in range(schedule.slots + 1))
    return tuple(chunk * elements // chunks for chunk in range(chunks + 1))


def execute(
    rounds: Sequence[LocalRound],
    memory: Vector,
    offsets: Sequence[int],
    transport: Transport,
    reduce: Callable[[Vector, Vector], None],
    empty: Callable[[int], Vector],
) -> None:
    """Carry out ``rounds`` of one rank on its ``memory``, whose slots begin at ``offsets``.

    ``reduce(into, other)`` reduces elementwise into its first argument; ``empty(n)`` makes a
    vector of n elements like ``memory``. The rank's part of the vector must be in the first slots;
    the result is then where the schedule says. A message whose chunks have no elements is sent all
    the same: a barrier has no others. A message is asked for a round ahead where it can be: else
    its sender, in a network whose messages wait until they are asked for, would lose a round trip
    in each round. Raises what the transport raises.
    """

    def view(piece: Piece) -> Vector:
        return memory[offsets[piece.first] : offsets[piece.first + piece.count]]

    def begun(messages: Sequence[Message]) -> list[_Receive]:
        """Ask for messages; those of one peer must be asked for in the order of rounds."""
        landed = [(message, _landing(message, view, empty)) for message in messages]
        return [(m, buffer, transport.receive(buffer, m.peer)) for m, buffer in landed]

    ahead: list[_Receive] = []
    for step, following in pairwise((*rounds, _NOTHING)):
        receives = ahead + begun(step.late if transport.early else step.receives)
        waits = [transport.send(_packed(m, view, empty), m.peer) for m in step.sends]
        ahead = begun(following.early) if transport.early else []
        waits = [wait for _, _, wait in receives] + waits
        own = [(t, _copied(view(source), empty)) for source, t in step.copies if t.reduce]
        for source, target in step.copies:
            if not target.reduce:
                view(target)[:] = view(source)
        for wait in waits:
            wait()
        for target, vector in own:
            reduce(view(target), vector)
        for message, buffer, _ in receives:
            if not message.in_place:
                _unpack(message, buffer, view, reduce)


_Receive = tuple[Message, Vector, Callable[[], None]]
_NOTHING = LocalRound((), (), ())


def _copied(vector: Vector, empty: Callable[[int], Vector]) -> Vector:
    copy = empty(len(vector))
    copy[:] = vector
    return copy


def _landing(
    message: Message, view: Callable[[Piece], Vector], empty: Callable[[int], Vector]
) -> Vector:
    """Where to receive a message: in place, or in a buffer if in pieces or to be reduced."""
    if message.in_place:
        return view(message.pieces[0])
    return empty(sum(len(view(piece)) for piece in message.pieces))


def _packed(
    message: Message, view: Callable[[Piece], Vector], empty: Callable[[int], Vector]
) -> Vector:
    """The contents of a message to send, contiguous."""
    parts = [view(piece) for piece in message.pieces]
    if len(parts) == 1:
        return parts[0]
    packed = empty(sum(len(part) for part in parts))
    at = 0
    for part in parts:
        packed[at : at + len(part)] = part
        at += len(part)
    return packed


def _unpack(
    message: Message,
    buffer: Vector,
    view: Callable[[Piece], Vector],
    reduce: Callable[[Vector, Vector], None],
) -> None:
    at = 0
    for piece in message.pieces:
        target = view(piece)
        part = buffer[at : at + len(target)]
        if piece.reduce:
            reduce(target, part)
        else:
            target[:] = part
        at += len(target)
