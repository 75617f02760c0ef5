"""Results of points as bytes, which travel between processes and are kept."""

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from steptime.pickles import packed, unpacked

T = TypeVar("T")


class Codec(Protocol[T]):
    """Makes bytes of a result, and the result of such bytes."""

    def encode(self, result: T) -> bytes:
        """The result as bytes."""

    def decode(self, content: bytes) -> T:
        """The result again; raises an exception where the bytes are of something else."""


@dataclass(frozen=True)
class Typed(Generic[T]):
    """Of dataclasses of numbers, texts, bytes and their containers: checked against their type."""

    of: type[T]

    def encode(self, result: T) -> bytes:
        """The result as MessagePack."""
        import msgspec

        return msgspec.msgpack.encode(result)

    def decode(self, content: bytes) -> T:
        """The result again; raises msgspec's errors where the bytes hold another type."""
        import msgspec

        return msgspec.msgpack.decode(content, type=self.of)


class Pickled:
    """Of any result that can be pickled, as a user's function may give it."""

    def encode(self, result: Any) -> bytes:
        """The result as pickle has it; raises UsageError where a part of it cannot travel."""
        return packed(result, "a result of the sweep holds", "let the function return plain values")

    def decode(self, content: bytes) -> Any:
        """The result again; what it was made of must be here too."""
        return unpacked(content)
