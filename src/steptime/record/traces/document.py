"""A file that may be a trace: its content, and what sort of content that is."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from steptime.errors import UsageError
from steptime.files import bounded_bytes, opened, reading
from steptime.host_memory import available_bytes
from steptime.timeline.chrome import FORMAT

MOST_BYTES = 1 << 30
"""Of a JSON or pickled trace, unpacked; a database is read row by row, and may be larger."""

_EXPANSION = 5  # memory that a trace takes while it is read, as a multiple of its content
_GZIP, _SQLITE = b"\x1f\x8b", b"SQLite format 3\x00"
_T = TypeVar("_T")


@dataclass(frozen=True)
class Document:
    """A file, and its content once that is needed; ``unpickle``: whether that was asked for."""

    path: Path
    unpickle: bool = False

    @cached_property
    def beginning(self) -> bytes:
        """Its first bytes, as they stand in the file."""
        with opened(self.path, "trace") as file:
            return file.read(64)

    @property
    def is_database(self) -> bool:
        """Whether it is one of SQLite."""
        return self.beginning.startswith(_SQLITE)

    @property
    def is_pickle(self) -> bool:
        """Whether it begins as pickles of protocol 2 and later do."""
        return self.beginning[:1] == b"\x80" and self.beginning[1:2] in (b"\2", b"\3", b"\4", b"\5")

    @property
    def may_be_json(self) -> bool:
        """Whether it is packed, or begins with an object or an array."""
        return self.beginning.startswith(_GZIP) or self.beginning.lstrip()[:1] in (b"{", b"[")

    @cached_property
    def content(self) -> bytes:
        """All of it; UsageError where it is too large for the limit or for the memory there is."""
        most = min(MOST_BYTES, available_bytes() // _EXPANSION)
        return bounded_bytes(self.path, f"trace of at most {most:,} bytes", most)

    @cached_property
    def keys(self) -> Mapping[str, Any]:
        """The values of its top object by name, still encoded; empty where it is none.

        An array of objects is taken for Chrome's trace events. Raises UsageError where it is no
        JSON, as where it was cut off.
        """
        import msgspec

        if not self.may_be_json:
            return {}
        text = self.content
        if text.lstrip()[:1] == b"[":
            return {"traceEvents": msgspec.Raw(text)}
        with reading(self.path, "trace"):
            try:
                return msgspec.json.decode(text, type=dict[str, msgspec.Raw])
            except msgspec.ValidationError:
                return {}
            except msgspec.DecodeError as error:
                raise UsageError(
                    f"{self.path} is no whole JSON ({error}): it was cut off, or is no trace"
                ) from None

    @property
    def is_ours(self) -> bool:
        """Whether steptime itself wrote it, as the timeline of a run."""
        return self.told("otherData", dict[str, Any], {}).get("format") == FORMAT

    def value(self, key: str, of: type[_T]) -> _T:
        """The value of ``key``, checked against a type; raises errors for ``reading`` to tell."""
        import msgspec

        if key not in self.keys:
            raise ValueError(f"it lacks {key}")
        return msgspec.json.decode(self.keys[key], type=of)

    def told(self, key: str, of: type[_T], otherwise: _T) -> _T:
        """The same, or ``otherwise`` where it holds none of that type."""
        import msgspec

        try:
            return self.value(key, of)
        except (ValueError, msgspec.ValidationError):
            return otherwise
