"""Constants: every number of the model of NCCL's calls, with its meaning, source and basis."""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias

Basis: TypeAlias = Literal["published", "fitted"]


@dataclass(frozen=True, kw_only=True)
class Constant:
    """One number, or one for each protocol: LL, LL128, Simple.

    ``name``: ``call_s`` or, of a generation of GPUs or a network, ``hopper.ring``. ``basis``:
    whether ``source`` prints it or it is fitted to measured tables.
    """

    name: str
    values: tuple[float, ...]
    meaning: str
    basis: Basis
    source: str = "benchmarks/nccl_tables.py --fit"

    @property
    def number(self) -> float:
        """The value of a constant that is one number."""
        return self.values[0]


Constants: TypeAlias = Mapping[str, Constant]
"""Constants by their names."""


@cache
def constants() -> Constants:
    """The constants that are shipped."""
    text = (files("steptime.simulate.nccl") / "constants.toml").read_text()
    return {one.name: one for one in _constants(tomllib.loads(text), "")}


def with_values(known: Constants, values: Mapping[str, float]) -> Constants:
    """The constants with other values for some."""
    return {
        **known,
        **{name: replace(known[name], values=(value,)) for name, value in values.items()},
    }


def _constants(table: dict[str, Any], prefix: str) -> Iterator[Constant]:
    for key, entry in table.items():
        if "value" in entry:
            value = entry.pop("value")
            values = value if isinstance(value, list) else [value]
            yield Constant(name=f"{prefix}{key}", values=tuple(map(float, values)), **entry)
        else:
            yield from _constants(entry, f"{prefix}{key}.")
