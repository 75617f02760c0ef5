"""Section: one table of a TOML or JSON file, read key by key, which refuses unknown keys."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from reprlib import repr as brief  # a value may fill the file
from typing import Any, NoReturn, TypeVar

from steptime.errors import UsageError
from steptime.nearest import did_you_mean
from steptime.units import parse_bytes, parse_flops, parse_rate, parse_seconds

_T = TypeVar("_T")
_MOST = 1 << 40
"""The largest number in a file: more than anything here has."""


@dataclass(frozen=True)
class Rate:
    """The speed of a link: ``bandwidth`` in bytes/s and ``latency`` in seconds."""

    bandwidth: float
    latency: float


@dataclass(frozen=True)
class Duplex:
    """A link in both directions: ``out`` leads away from the device, ``back`` towards it."""

    out: Rate
    back: Rate


class Section:
    """A table of the file ``file`` at ``path``, such as ``network``.

    Every key that is read counts as known: ``finish`` refuses all others. Every error is a
    UsageError that names the file and the key.
    """

    def __init__(self, table: Mapping[str, Any], file: str, path: str = "") -> None:
        self._table = table
        self._file = file
        self._path = path
        self._known: dict[str, Section | None] = {}

    def refuse(self, key: str, why: str) -> NoReturn:
        """Raise UsageError about ``key``, or about the whole table when that is empty."""
        raise UsageError(f"{self._file}: {self._name(key)} {why}")

    def has(self, key: str) -> bool:
        """Whether the key is there."""
        self._known.setdefault(key, None)
        return key in self._table

    def raw(self, key: str) -> Any:
        """The value of a key as the parser returns it, or None."""
        return self._table[key] if self.has(key) else None

    def text(self, key: str, default: str | None = None) -> str:
        """A string."""
        value = self._value(key, default)
        if not isinstance(value, str):
            self.refuse(key, f"is {brief(value)}: it must be text in quotes")
        return value

    def choice(self, key: str, known: Sequence[str], default: str | None = None) -> str:
        """One of some words."""
        word = self.text(key, default)
        if word not in known:
            mend = did_you_mean(word, known) or f"it must be one of {', '.join(known)}"
            self.refuse(key, f"is {word!r}: {mend}")
        return word

    def flag(self, key: str, *, default: bool) -> bool:
        """A boolean."""
        value = self._value(key, default)
        if not isinstance(value, bool):
            self.refuse(key, f"is {brief(value)}: it must be true or false")
        return value

    def count(self, key: str, default: int | None = None, least: int = 1) -> int:
        """A whole number, ``least`` or more."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self.refuse(key, f"is {brief(value)}: it must be a whole number, {least} or more")
        if value > _MOST:
            self.refuse(key, f"is {brief(value)}: it must be at most {_MOST:,}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """A finite number above 0."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.refuse(key, f"is {brief(value)}: it must be a number")
        if not 1 / _MOST <= value <= _MOST:
            self.refuse(key, f"is {brief(value)}: it must be a finite number above 0")
        return float(value)

    def rate(self, key: str) -> float:
        """Bytes per second, above 0."""
        return self._positive(key, parse_rate)

    def flops(self, key: str) -> float:
        """FLOP per second, above 0."""
        return self._positive(key, parse_flops)

    def size(self, key: str) -> float:
        """Bytes, above 0."""
        return self._positive(key, parse_bytes)

    def seconds(self, key: str) -> float:
        """A time of 0 or more."""
        return self._parsed(key, parse_seconds)

    def keys(self) -> list[str]:
        """The keys that are present, all of which count as known."""
        self._known |= dict.fromkeys(self._table.keys() - self._known.keys())
        return list(self._table)

    def section(self, key: str) -> "Section":
        """The table at a key, empty where there is none."""
        value = self._table.get(key, {})
        if not isinstance(value, dict):
            self.refuse(key, f"is {brief(value)}: it must be a table of keys and values")
        found = self._known.get(key) or Section(value, self._file, self._name(key))
        self._known[key] = found
        return found

    def sections(self, key: str) -> list["Section"]:
        """The tables of a list; call ``finish`` on each."""
        value = self._value(key, None)
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            self.refuse(key, "must be a list of tables, such as [{ between = [0, 1], … }]")
        return [
            Section(one, self._file, f"{self._name(key)}[{place}]")
            for place, one in enumerate(value)
        ]

    def listed(self, key: str, parse: Callable[[str], _T]) -> list[_T]:
        """A list of texts, each read by ``parse``."""
        value = self._value(key, None)
        if not isinstance(value, list):
            self.refuse(key, f"is {brief(value)}: it must be a list of texts")
        try:
            return [parse(f"{one}") for one in value]
        except UsageError as error:
            raise UsageError(f"{self._file}: {self._name(key)}: {error}") from None

    def on_ground(self, ground: Mapping[str, Any]) -> "Section":
        """This table with the keys of ``ground`` that it lacks; all its own count as known."""
        self.keys()
        return Section({**ground, **self._table}, self._file, self._path)

    def one_way(self) -> Rate:
        """The ``bandwidth`` and ``latency`` of this table."""
        return Rate(self.rate("bandwidth"), self.seconds("latency"))

    def duplex(self) -> Duplex:
        """The rates of both directions; tables ``out`` and ``in`` may override this one's."""
        for key in ("bandwidth", "latency"):
            self.has(key)
        return Duplex(self._direction("out"), self._direction("in"))

    def finish(self) -> None:
        """Raise UsageError when there are keys that were never read."""
        unknown = next((key for key in self._table if key not in self._known), None)
        if unknown is not None:
            near = get_close_matches(unknown, self._known, 1, 0.5)
            mend = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(self._known)}"
            self.refuse(unknown, f"is not known here: {mend}")
        for section in self._known.values():
            if section:
                section.finish()

    def _direction(self, key: str) -> Rate:
        own = self.section(key)
        return Rate(
            (own if own.has("bandwidth") else self).rate("bandwidth"),
            (own if own.has("latency") else self).seconds("latency"),
        )

    def _positive(self, key: str, parse: Callable[[str], float]) -> float:
        value = self._parsed(key, parse)
        if value <= 0:
            self.refuse(key, f"is {self._table[key]}: it must be above 0")
        return value

    def _parsed(self, key: str, parse: Callable[[str], _T]) -> _T:
        value = self._value(key, None)
        try:
            return parse(value if isinstance(value, str) else f"{value}")
        except UsageError as error:
            raise UsageError(f"{self._file}: {self._name(key)}: {error}") from None

    def _value(self, key: str, default: _T | None) -> Any:
        if self.has(key):
            return self._table[key]
        if default is None:
            others = [other for other in self._table if other not in self._known]
            near = get_close_matches(key, others, 1)
            self.refuse(
                key, f"is missing: does {near[0]!r} stand for it?" if near else "is missing"
            )
        return default

    def _name(self, key: str) -> str:
        return ".".join(part for part in (self._path, key) if part) or "the file"
