"""Node: a node of a Chakra trace and its attributes, encoded and decoded."""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, TypeAlias

from steptime.errors import UsageError
from steptime.program.chakra.protobuf import (
    Value,
    Wire,
    bytes_field,
    key,
    number_field,
    read_fields,
    read_packed,
    sized,
    varint,
)

Attribute: TypeAlias = bool | int | float | str | bytes | tuple[Any, ...]
Attributes: TypeAlias = Mapping[str, Attribute]

VERSION = "0.0.4"


class NodeType(IntEnum):
    """The type of a node, as in et_def.proto."""

    INVALID = 0
    METADATA = 1
    MEM_LOAD = 2
    MEM_STORE = 3
    COMP = 4
    COMM_SEND = 5
    COMM_RECV = 6
    COMM_COLL = 7


_TYPES = frozenset(NodeType)


class Int32(int):
    """An integer that readers expect in the 32-bit field, such as a rank."""


class Uint64(int):
    """An integer that readers expect in the unsigned field, such as the size of a tensor."""


@dataclass(frozen=True)
class Node:
    """One operation of a rank, and its attributes by name.

    ``after``: the nodes whose data it needs. ``controls``: those that it follows for another
    reason, such as the call that made it, which a trace may lack.
    """

    id: int
    name: str
    type: NodeType
    after: Sequence[int] = ()
    micros: int = 0
    attributes: Attributes = field(default_factory=dict)
    controls: Sequence[int] = ()


@dataclass(frozen=True)
class _Member:
    """One type of attribute value: its wire type, and how its bits are converted."""

    wire: Wire
    value: Callable[[Any], Attribute]


def _fixed(form: str) -> Callable[[bytes], Attribute]:
    return lambda content: struct.unpack(form, content)[0]


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _zigzag(value: int) -> int:
    return value >> 1 ^ -(value & 1)


_MEMBERS = {
    3: _Member(Wire.FIXED64, _fixed("<d")),
    5: _Member(Wire.FIXED32, _fixed("<f")),
    7: _Member(Wire.VARINT, _signed),
    9: _Member(Wire.VARINT, _signed),
    11: _Member(Wire.VARINT, int),
    13: _Member(Wire.VARINT, int),
    15: _Member(Wire.VARINT, _zigzag),
    17: _Member(Wire.VARINT, _zigzag),
    19: _Member(Wire.FIXED32, _fixed("<I")),
    21: _Member(Wire.FIXED64, _fixed("<Q")),
    23: _Member(Wire.FIXED32, _fixed("<i")),
    25: _Member(Wire.FIXED64, _fixed("<q")),
    27: _Member(Wire.VARINT, bool),
    29: _Member(Wire.BYTES, lambda content: _text(content)),
    31: _Member(Wire.BYTES, bytes),
}
"""Fields of a scalar in AttributeProto's value group; a list of them has the next number."""


def metadata_record(attributes: Attributes) -> bytes:
    """The first record of a file, a GlobalMetadata."""
    return sized(bytes_field(1, VERSION.encode()) + _attribute_fields(2, attributes))


def node_record(node: Node) -> bytes:
    """A further record of a file, a Node; its dependencies are data dependencies."""
    after = b"".join(map(varint, node.after))
    return sized(
        number_field(1, node.id)
        + bytes_field(2, node.name.encode())
        + number_field(3, node.type)
        + (bytes_field(5, after) if after else b"")
        + number_field(7, node.micros)
        + _attribute_fields(10, node.attributes)
    )


def _attribute_fields(number: int, attributes: Attributes) -> bytes:
    return b"".join(
        bytes_field(number, bytes_field(1, name.encode()) + _value_field(name, value))
        for name, value in attributes.items()
    )


def _value_field(name: str, value: Attribute) -> bytes:
    """A member of the value group, written even where it is zero."""
    match value:
        case tuple():
            return _list_field(name, value)
        case bool():
            return key(27, Wire.VARINT) + varint(value)
        case int():
            number = 7 if isinstance(value, Int32) else 13 if isinstance(value, Uint64) else 9
            return key(number, Wire.VARINT) + _int64(name, value)
        case float():
            return key(3, Wire.FIXED64) + struct.pack("<d", value)
        case bytes():
            return bytes_field(31, value)
        case str():
            return bytes_field(29, value.encode())


def _list_field(name: str, values: tuple[Any, ...]) -> bytes:
    """A list of strings or of integers; an empty one is of integers."""
    if any(isinstance(value, str) for value in values):
        return bytes_field(30, b"".join(bytes_field(1, value.encode()) for value in values))
    packed = b"".join(_int64(name, value) for value in values)
    return bytes_field(10, bytes_field(1, packed) if packed else b"")


def _int64(name: str, value: int) -> bytes:
    if not -(1 << 63) <= value < 1 << 63:
        raise UsageError(f"{name} is {value}: a Chakra trace holds numbers of 64 bits")
    return varint(value)


def read_metadata(record: bytes) -> Attributes:
    """Decode a GlobalMetadata's attributes. Raises UsageError where the record is none."""
    version, attributes = "", {}
    for number, _, value in read_fields(record):
        if number == 1:
            version = _text(value)
        elif number == 2:
            name, content = _attribute(value)
            attributes[name] = content
    # Traces of version 0.0.4 tell theirs as an attribute.
    if not version and "schema" not in attributes:
        raise UsageError("it does not begin with the version of a Chakra trace")
    return attributes


def read_node(record: bytes) -> Node:
    """Decode a Node. Raises UsageError where the record is none."""
    identity = kind = micros = 0
    name = ""
    after: list[int] = []
    controls: list[int] = []
    attributes: dict[str, Attribute] = {}
    for number, wire, value in read_fields(record):
        match number:
            case 1:
                identity = _number(value)
            case 2:
                name = _text(value)
            case 3:
                kind = _number(value)
            case 4 | 5:
                found = controls if number == 4 else after
                found += map(_number, read_packed(wire, Wire.VARINT, value))
            case 7:
                micros = _number(value)
            case 10:
                title, content = _attribute(value)
                attributes[title] = content
    if kind not in _TYPES:
        raise UsageError(f"the node {name!r} is of no known type: {kind}")
    both = tuple(dict.fromkeys(after)), tuple(dict.fromkeys(controls))
    return Node(identity, name, NodeType(kind), both[0], micros, attributes, both[1])


def _attribute(message: Value) -> tuple[str, Attribute]:
    name, content = "", None
    for number, wire, value in read_fields(_content(message)):
        if number == 1:
            name = _text(value)
        elif number in _MEMBERS:
            content = _scalar(_MEMBERS[number], wire, value)
        elif number - 1 in _MEMBERS:
            content = tuple(_elements(_MEMBERS[number - 1], _content(value)))
    if content is None:
        raise UsageError(f"the attribute {name!r} has no value")
    return name, content


def _scalar(member: _Member, wire: Wire, value: Value) -> Attribute:
    if wire is not member.wire:
        raise UsageError("an attribute's value is of another type than its field")
    return member.value(value)


def _elements(member: _Member, message: bytes) -> Iterator[Attribute]:
    for number, wire, value in read_fields(message):
        if number != 1:
            raise UsageError("a list of values holds something else")
        if member.wire is Wire.BYTES:
            yield _scalar(member, wire, value)
        else:
            yield from map(member.value, read_packed(wire, member.wire, value))


def _number(value: Value) -> int:
    if not isinstance(value, int):
        raise UsageError("a number is expected and bytes are there")
    return value


def _content(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise UsageError("bytes are expected and a number is there")
    return value


def _text(value: Value) -> str:
    try:
        return _content(value).decode()
    except UnicodeDecodeError:
        raise UsageError("a name is not in UTF-8") from None
