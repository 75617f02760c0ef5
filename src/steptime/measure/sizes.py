"""The sizes of a sweep."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from math import inf

from steptime.errors import UsageError
from steptime.units import Size, parse_bytes

_MOST_SIZES = 10_000
_BINARY = re.compile(r"(\d+)([KMG])", re.IGNORECASE)


def parse_size(text: str) -> int:
    """Bytes of a size: 4K, M or G, binary as in nccl-tests, or with a unit: ``64MiB``.

    Raises UsageError when the text is no size.
    """
    match = _BINARY.fullmatch(text.strip())
    return parse_bytes(f"{match[1]}{match[2].upper()}iB" if match else text)


@dataclass(frozen=True)
class Sweep:
    """Sizes from ``least`` to ``most`` bytes, each ``factor`` times the last or ``step`` more."""

    least: int
    most: int
    factor: float | None = None
    step: int | None = None

    def __post_init__(self) -> None:
        if self.least < 1:
            raise UsageError(f"--minbytes is {Size(self.least)}: it must be at least 1")
        if self.least > self.most:
            raise UsageError(
                f"--minbytes {Size(self.least)} is more than --maxbytes {Size(self.most)}: "
                "swap them"
            )
        if (self.factor is None) == (self.step is None):
            raise UsageError("--stepbytes and --stepfactor both say which sizes: leave one out")
        if self.factor is not None and not 1 < self.factor < inf:
            raise UsageError(f"--stepfactor is {self.factor:g}: it must be a number above 1")
        if self.step is not None and self.step < 1:
            raise UsageError(f"--stepbytes is {self.step}: it must be at least 1")

        if len(self.sizes()) > _MOST_SIZES:
            raise UsageError(
                f"these are over {_MOST_SIZES:,} sizes: make --stepbytes or --stepfactor larger"
            )

    def sizes(self) -> list[int]:
        """The sizes in bytes, ascending."""
        return list(islice(self._all_sizes(), _MOST_SIZES + 1))

    def _all_sizes(self) -> Iterator[int]:
        size = self.least
        while size <= self.most:
            yield size
            # Not beyond the most: a factor near the largest float would make no integer of it.
            grown = size + self.step if self.step else size * (self.factor or 2)
            size = max(size + 1, int(min(grown, self.most + 1)))
