"""What is asked of a mesh: a message to be sent, or one to be received."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from steptime.backend.host.call import WORDS

HEAD = struct.Struct(f"<{8 * WORDS}sqQ")
"""What precedes a message: the encoded call that sends it, its tag, and its bytes."""

STRIPED_BYTES = 128 << 10
"""Messages from here on are cut into one part for each rail."""


def split(size: int, rails: int) -> Iterator[tuple[int, int]]:
    """Where the part of each rail begins and ends in a message of ``size`` bytes."""
    parts = rails if size >= STRIPED_BYTES else 1
    for part in range(parts):
        yield part * size // parts, (part + 1) * size // parts


@dataclass(eq=False, slots=True)
class Sending:
    """A message on its way; its memory may change when all its parts have left."""

    parts: int
    lost: bool = False
    """Whether its receiver is gone."""

    @property
    def done(self) -> bool:
        """Whether the kernel has all of it."""
        return not self.parts


@dataclass(eq=False, slots=True)
class Receipt:
    """A message that is asked for, or has come unasked.

    ``target``: where it is to land, if its size is known. ``payload``: where it did: the target, or
    other memory where there is none or it is of another size.
    """

    tag: int
    target: memoryview | None
    source: int = -1
    call: bytes = b""
    payload: memoryview = field(default_factory=lambda: memoryview(b""))
    lost: bool = False
    """Whether whoever should send it is gone."""
    heir: "Receipt | None" = None
    """What was asked for when this, which had come unasked, was only half here."""
    done: bool = False
    """Whether all of it is there."""

    def begin(self, source: int, call: bytes, size: int) -> None:
        """Learn what the head of the message says."""
        self.source, self.call = source, call
        if self.target is not None and len(self.target) == size:
            self.payload = self.target
        else:
            self.payload = memoryview(bytearray(size))

    def take_over(self, early: "Receipt") -> None:
        """Be the message that came before this was asked for."""
        self.begin(early.source, early.call, len(early.payload))
        self.payload[:] = early.payload
        self.done = True
