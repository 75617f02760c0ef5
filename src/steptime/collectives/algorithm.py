"""Algorithms: functions that generate the rounds of a collective, and how they are found."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType, ModuleType
from typing import Any

from steptime.collectives.collective import COLLECTIVES, Collective, collective_named
from steptime.collectives.schedule import Round, Schedule
from steptime.discovery import modules_of
from steptime.errors import UsageError
from steptime.nearest import mend

Generator = Callable[..., Iterator[Round]]
Count = Callable[..., int]

DEFAULT_BLOCKS = 8
_SETTINGS = ("ranks", "root", "hosts", "blocks")


@dataclass(frozen=True)
class Algorithm:
    """One way to carry out a collective on any number of ranks that ``serves`` accepts."""

    collective: Collective
    name: str
    generate: Generator
    chunks: Count
    scratch: Count
    serves: Callable[[int], bool]

    @property
    def doc(self) -> str:
        """What its function says of it."""
        return inspect.getdoc(self.generate) or ""

    @property
    def takes(self) -> tuple[str, ...]:
        """The settings that its rounds depend on, of ranks, root, hosts and blocks."""
        return tuple(inspect.signature(self.generate).parameters)


def algorithm(
    collective: str,
    *,
    name: str = "",
    chunks: Count = lambda ranks: ranks,
    scratch: Count = lambda: 0,
    serves: Callable[[int], bool] = lambda ranks: ranks >= 1,
) -> Callable[[Generator], Algorithm]:
    """Make an Algorithm of a function that generates the rounds of ``collective``.

    The function, ``chunks`` and ``scratch`` each ask by the names of their parameters for what
    they need: ``ranks``, how many there are; ``root``; ``hosts``, the host of each rank;
    ``blocks``, into how many a pipeline cuts the vector. ``chunks`` says into how many chunks the
    vector is cut (one a rank), ``scratch`` how many slots a rank needs beside it, and ``serves``
    which numbers of ranks the algorithm can do. ``name`` is by default that of the function.

    Raises UsageError for an unknown collective or parameter.
    """
    specification = collective_named(collective)

    def make(generate: Generator) -> Algorithm:
        for function in (generate, chunks, scratch):
            unknown = [n for n in inspect.signature(function).parameters if n not in _SETTINGS]
            if unknown:
                raise UsageError(
                    f"the algorithm {generate.__name__} asks for {unknown[0]!r}: its parameters "
                    f"may be {', '.join(_SETTINGS)}"
                )
        title = name or generate.__name__
        return Algorithm(specification, title, generate, chunks, scratch, serves)

    return make


def schedule(
    chosen: Algorithm,
    ranks: int,
    *,
    root: int = 0,
    hosts: tuple[int, ...] | None = None,
    blocks: int = DEFAULT_BLOCKS,
) -> Schedule:
    """The schedule of an algorithm for so many ranks.

    ``hosts`` names the host of each rank; by default the first half of the ranks is on one host
    and the rest on another.

    Raises UsageError when the algorithm cannot serve them; it lists those that can.
    """
    _check(chosen, ranks, root, hosts, blocks)
    hosts = hosts or tuple(2 * rank // ranks for rank in range(ranks))
    settings = {"ranks": ranks, "root": root, "hosts": hosts, "blocks": blocks}
    return Schedule(
        collective=chosen.collective,
        algorithm=chosen.name,
        ranks=ranks,
        root=root,
        hosts=hosts,
        chunks=_call(chosen.chunks, settings),
        scratch=_call(chosen.scratch, settings),
        generate=lambda: _call(chosen.generate, settings),
    )


def _call(function: Callable[..., Any], settings: Mapping[str, Any]) -> Any:
    return function(**{name: settings[name] for name in inspect.signature(function).parameters})


def _check(
    chosen: Algorithm, ranks: int, root: int, hosts: tuple[int, ...] | None, blocks: int
) -> None:
    kind = chosen.collective.name
    if ranks < 1:
        raise UsageError(f"a collective needs at least one rank, not {ranks}")
    if not chosen.serves(ranks):
        able = [a.name for a in algorithms(kind).values() if a.serves(ranks)]
        raise UsageError(
            f"the {kind} {chosen.name!r} cannot serve {ranks} ranks: choose one of "
            f"{', '.join(able)}"
        )
    if not 0 <= root < ranks:
        raise UsageError(f"the root {root} is no rank: there are ranks 0 to {ranks - 1}")
    if hosts is not None and len(hosts) != ranks:
        raise UsageError(f"{len(hosts)} hosts are given for {ranks} ranks: give one for each rank")
    if blocks < 1:
        raise UsageError(f"a vector is cut into at least one block, not {blocks}")


def algorithms(collective: str) -> Mapping[str, Algorithm]:
    """The shipped algorithms of a collective by name, in the order of their names.

    Raises UsageError for an unknown collective.
    """
    return _shipped(collective_named(collective).name)


@cache
def _shipped(collective: str) -> Mapping[str, Algorithm]:
    modules = modules_of(f"steptime.collectives.{collective}")
    found = [a for module in modules for a in algorithms_in(module)]
    return MappingProxyType(
        {a.name: a for a in sorted(found, key=lambda a: a.name) if a.collective.name == collective}
    )


def algorithms_in(module: ModuleType) -> list[Algorithm]:
    """The algorithms that a module defines, in their order."""
    return [
        value
        for value in vars(module).values()
        if isinstance(value, Algorithm) and value.generate.__module__ == module.__name__
    ]


def algorithm_named(collective: str, name: str) -> Algorithm:
    """The shipped algorithm of that name, or a UsageError that says which there are."""
    known = algorithms(collective)
    if name not in known:
        raise UsageError(f"there is no {collective} {name!r}: {mend(name, known)}")
    return known[name]


def all_algorithms() -> list[Algorithm]:
    """Every shipped algorithm, by collective and name."""
    return [a for collective in COLLECTIVES for a in algorithms(collective).values()]
