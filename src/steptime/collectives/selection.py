"""Selection: which algorithm carries out a collective at which size, as one line of text.

``recursive_doubling:0-8KiB;circulant:8KiB-max``, as oneCCL writes it, but that a range ends before
its second number: an end is the beginning of the next range, and no size lies between them.
"""

from dataclasses import dataclass

from steptime.collectives.algorithm import algorithms
from steptime.collectives.lookup import find_algorithm, is_own
from steptime.errors import UsageError
from steptime.nearest import mend
from steptime.units import Size, parse_bytes

BUILTIN = "builtin"
"""The name that stands for the library's own way to carry out a collective."""

_MAX = "max"
_BLOCK_BYTES = 64 << 10
_MOST_BLOCKS = 64


@dataclass(frozen=True)
class Choice:
    """One algorithm for the sizes of at least ``first`` and less than ``end`` bytes."""

    algorithm: str
    first: int
    end: int | None
    """None: there is no end."""

    def __str__(self) -> str:
        end = _MAX if self.end is None else _size(self.end)
        return f"{self.algorithm}:{_size(self.first)}-{end}"


@dataclass(frozen=True)
class Selection:
    """An algorithm for every size of a collective, in the order of the sizes, without gaps.

    The size is that of the whole vector, as ``bench`` counts it: for an all_gather what a rank
    holds in the end, for a reduce_scatter what it holds at first.
    """

    collective: str
    choices: tuple[Choice, ...]

    @staticmethod
    def parse(text: str, collective: str, ranks: int) -> "Selection":
        """The selection that ``text`` writes down; an algorithm's name alone is for all sizes.

        Raises UsageError when the text cannot be read, the ranges leave sizes out or overlap, or
        an algorithm is unknown or cannot serve so many ranks; it lists those that can.
        """
        choices = tuple(_choice(part, text) for part in text.split(";"))
        for choice in choices:
            check_servable(choice.algorithm, collective, ranks)
        _check_ranges(choices, text)
        return Selection(collective, choices)

    def algorithm(self, nbytes: int) -> str:
        """The name of the algorithm for a vector of ``nbytes`` bytes; it may be BUILTIN."""
        return next(c.algorithm for c in self.choices if c.end is None or nbytes < c.end)

    def __str__(self) -> str:
        return ";".join(map(str, self.choices))


def servable(collective: str, ranks: int) -> list[str]:
    """The names that may be selected for a collective of so many ranks: BUILTIN and the shipped."""
    return [BUILTIN, *(a.name for a in algorithms(collective).values() if a.serves(ranks))]


def check_servable(name: str, collective: str, ranks: int) -> None:
    """Raise UsageError when no algorithm of that name, or of that file, serves so many ranks."""
    able = servable(collective, ranks)
    if name in able:
        return
    if not is_own(name) and name not in algorithms(collective):
        raise UsageError(f"the {collective} {name!r} does not exist: {mend(name, able)}")
    if not find_algorithm(collective, name).serves(ranks):
        raise UsageError(
            f"the {collective} {name!r} cannot serve {ranks} ranks: choose one of {', '.join(able)}"
        )


def blocks_for(nbytes: int) -> int:
    """Into how many blocks a pipelined algorithm cuts a vector of ``nbytes`` bytes.

    Blocks of 64 KiB, at most 64 of them: below that size what a message costs at all outweighs, on
    the transports of one host and on 10 Gb/s networks alike, what the pipeline gains.
    """
    return min(max(nbytes // _BLOCK_BYTES, 1), _MOST_BLOCKS)


def _choice(part: str, text: str) -> Choice:
    name, colon, sizes = (word.strip() for word in part.partition(":"))
    if not colon:
        return Choice(name, 0, None)
    first, dash, end = (word.strip() for word in sizes.partition("-"))
    if not dash:
        raise UsageError(
            f"{part.strip()!r} in the selection {text!r} is no choice: write NAME:FROM-TO, such as "
            "ring:8KiB-max"
        )
    return Choice(name, parse_bytes(first), None if end == _MAX else parse_bytes(end))


def _check_ranges(choices: tuple[Choice, ...], text: str) -> None:
    expected: int | None = 0
    for choice in choices:
        if choice.first != expected:
            due = _MAX if expected is None else _size(expected)
            raise UsageError(
                f"in the selection {text!r} the range of {choice.algorithm} begins at "
                f"{_size(choice.first)} and what is before it ends at {due}: let each range begin "
                "where the one before ends, the first at 0"
            )
        if choice.end is not None and choice.end <= choice.first:
            raise UsageError(
                f"in the selection {text!r} the range of {choice.algorithm} is empty: let it end "
                f"above {_size(choice.first)}"
            )
        expected = choice.end
    if expected is not None:
        raise UsageError(
            f"the selection {text!r} says nothing of {_size(expected)} and above: let the last "
            "range end with max"
        )


def _size(nbytes: int) -> str:
    return str(Size(nbytes)) if nbytes else "0"
