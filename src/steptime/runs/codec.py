"""Dataclasses as plain JSON, and plain JSON as dataclasses, checked.

The types of a record are frozen dataclasses, as everywhere; msgspec decodes them. A decoder of our
own would be a hundred lines to check nested types, unions and literals, and msgspec, which depends
on nothing, does it in C and tells the path of what is wrong. Unknown fields are let pass, so a
record may grow.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

from steptime.errors import UsageError

T = TypeVar("T")
_LEAVES = (str, int, float)


def decoded(raw: Any, of: type[T], name: str = "") -> T:
    """Plain JSON as the type ``of``; raises UsageError, saying that of the run ``name``."""
    import msgspec

    try:
        return msgspec.convert(raw, of)
    except msgspec.ValidationError as error:
        raise UsageError(
            f"the run.json of {name} is not whole ({error}): run steptime again"
        ) from error


def plain(value: Any) -> Any:
    """Dataclasses as JSON has them: without the fields of which nothing is known."""
    if isinstance(value, _LEAVES):  # most values of a record of many ranks: spare them the rest
        return value
    if is_dataclass(value) and not isinstance(value, type):
        found = ((name, getattr(value, name), always) for name, always in _fields(type(value)))
        return {name: plain(of) for name, of, always in found if always or not _empty(of)}
    if isinstance(value, Mapping):
        return {name: plain(of) for name, of in value.items()}
    if isinstance(value, list | tuple):
        return [plain(of) for of in value]
    return value


@cache
def _fields(of: Any) -> list[tuple[str, bool]]:
    """The fields of a dataclass, and whether JSON holds each even where it is empty."""
    return [(one.name, bool(one.metadata.get("always"))) for one in fields(of)]


def _empty(value: Any) -> bool:
    return value is None or not (isinstance(value, _LEAVES) or value)
