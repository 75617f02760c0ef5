"""Executing one rank's part of a schedule, on any vectors over any transport."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from steptime.collectives.schedule import Round, Schedule

Vector = Any
"""A 1-D NumPy array or torch tensor: slices of it are views, and ``a[:] = b`` copies."""


class Transport(Protocol):
    """Messages between ranks; those from one rank to another arrive in the order of sending."""

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


def local_rounds(schedule: Schedule, rank: int) -> tuple[LocalRound, ...]:
    """The part of ``rank`` in each round in which it does anything."""
    rounds = (_local_round(transfers, rank) for transfers in schedule.rounds())
    return tuple(r for r in rounds if r.sends or r.receives or r.copies)


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
    the same: a barrier has no others. Raises what the transport raises.
    """

    def view(piece: Piece) -> Vector:
        return memory[offsets[piece.first] : offsets[piece.first + piece.count]]

    for step in rounds:
        landed = [(m, _landing(m, view, empty)) for m in step.receives]
        waits = [transport.receive(buffer, message.peer) for message, buffer in landed]
        waits += [transport.send(_packed(m, view, empty), m.peer) for m in step.sends]
        own = [(t, _copied(view(source), empty)) for source, t in step.copies if t.reduce]
        for source, target in step.copies:
            if not target.reduce:
                view(target)[:] = view(source)
        for wait in waits:
            wait()
        for target, vector in own:
            reduce(view(target), vector)
        for message, buffer in landed:
            if not message.in_place:
                _unpack(message, buffer, view, reduce)


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
