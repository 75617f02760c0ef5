"""Protocol buffers' wire format: varints, keys and fields, after Google's encoding guide."""

from collections.abc import Iterator
from enum import IntEnum
from typing import TypeAlias

from steptime.errors import UsageError

Value: TypeAlias = int | bytes
"""Of a varint field the unsigned integer, of any other its bytes."""

_MASK = (1 << 64) - 1
_LONGEST_VARINT = 10  # bytes of 64 bits in groups of seven


class Wire(IntEnum):
    """The wire type of a field, which determines its length."""

    VARINT = 0
    FIXED64 = 1
    BYTES = 2
    FIXED32 = 5


_KINDS = frozenset(Wire)
_FIXED = {Wire.FIXED64: 8, Wire.FIXED32: 4}


def varint(value: int) -> bytes:
    """Encode 7 bits a byte, low ones first; a negative number as its 64-bit two's complement."""
    left = value & _MASK
    groups = bytearray()
    while left > 0x7F:
        groups.append(left & 0x7F | 0x80)
        left >>= 7
    groups.append(left)
    return bytes(groups)


def key(number: int, wire: Wire) -> bytes:
    """The key that comes before a field: its number and wire type."""
    return varint(number << 3 | wire)


def sized(content: bytes) -> bytes:
    """Prefix bytes by their length: a record of a file, or the content of a BYTES field."""
    return varint(len(content)) + content


def number_field(number: int, value: int) -> bytes:
    """A field of a plain integer, which proto3 leaves out where it is zero."""
    return key(number, Wire.VARINT) + varint(value) if value else b""


def bytes_field(number: int, content: bytes) -> bytes:
    """A field of a string or a message."""
    return key(number, Wire.BYTES) + sized(content)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Decode the varint at position ``at``; returns it and the position behind it.

    Raises UsageError when the data end within it or it is longer than 64 bits.
    """
    value = 0
    for count, byte in enumerate(data[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return value & _MASK, at + count + 1
    whole = at + _LONGEST_VARINT <= len(data)
    raise UsageError("a number has more than 64 bits" if whole else "it ends within a number")


def read_sized(data: bytes, at: int) -> tuple[bytes, int]:
    """Read length-prefixed bytes at position ``at``; returns them and the position behind them.

    Raises UsageError when the data end before.
    """
    length, at = read_varint(data, at)
    if length > len(data) - at:
        raise UsageError(f"{length} bytes are announced and {len(data) - at} are left")
    return data[at : at + length], at + length


def read_fields(message: bytes) -> Iterator[tuple[int, Wire, Value]]:
    """The fields of a message in their order: number, wire type and value.

    Raises UsageError where the bytes are no message.
    """
    at = 0
    while at < len(message):
        tag, at = read_varint(message, at)
        number, kind = tag >> 3, tag & 7
        if number == 0 or kind not in _KINDS:
            raise UsageError(f"no field has the key {tag}")
        wire = Wire(kind)
        value: Value
        if wire is Wire.VARINT:
            value, at = read_varint(message, at)
        elif wire is Wire.BYTES:
            value, at = read_sized(message, at)
        else:
            value, at = message[at : at + _FIXED[wire]], at + _FIXED[wire]
            if at > len(message):
                raise UsageError("it ends within a number")
        yield number, wire, value


def read_packed(wire: Wire, of: Wire, value: Value) -> Iterator[Value]:
    """The elements of a repeated numeric field, whether packed or a single one.

    Raises UsageError when they are not of the wire type ``of``.
    """
    if wire is of:
        yield value
    elif wire is Wire.BYTES and isinstance(value, bytes):
        at = 0
        while at < len(value):
            if of is Wire.VARINT:
                one, at = read_varint(value, at)
                yield one
            else:
                yield value[at : at + _FIXED[of]]
                at += _FIXED[of]
                if at > len(value):
                    raise UsageError("it ends within a number")
    else:
        raise UsageError("a list of numbers holds something else")
