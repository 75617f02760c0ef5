"""Options of what takes turns: frozen, checked, and free of NumPy."""

import math
from dataclasses import dataclass

from steptime.errors import UsageError
from steptime.units import parse_percentage, parse_seconds

MOST_TURNS = 10
"""Without a word about them: with ten the interval is hardly wider than with more of them."""


@dataclass(frozen=True, kw_only=True)
class TurnOptions:
    """How those that are compared take turns."""

    turns: int | None = None
    """How often each takes its turn; default: once for each timed step or operation, 10 times at
    most, and with --see 60 at most."""

    see: str | None = None
    """Go on until a difference of this much would nearly always be told, as 5%."""

    within: str | None = None
    """With --see, end with the turn in which this time is over, as 10min."""

    def __post_init__(self) -> None:
        if self.turns is not None and self.turns < 1:
            raise UsageError(f"--turns is {self.turns}: it must be at least 1")
        if self.part == 0:
            raise UsageError("--see is 0%, which no number of turns would show: write more, as 5%")
        _ = self.limit_s  # refused where it cannot be
        if self.part is not None and self.turns is not None:
            from steptime.ratios import LEAST_PAIRS

            if self.turns < LEAST_PAIRS:
                raise UsageError(
                    f"--turns is {self.turns}, and --see takes {LEAST_PAIRS} to know how many it "
                    "needs: give as many or more, or leave --turns out"
                )

    @property
    def part(self) -> float | None:
        """The difference to see, relative."""
        return None if self.see is None else parse_percentage(self.see, "see")

    @property
    def limit_s(self) -> float:
        """Seconds after which no further turn begins."""
        return limit_of(self.within, self.see)

    def blocks(self, steps: int, option: str = "--steps") -> list[int]:
        """How many of the timed steps that ``option`` asks for each turn has.

        Raises UsageError where there are more turns than steps.
        """
        if self.part is not None:
            from steptime.ratios import MOST_PAIRS

            return [-(-steps // MOST_TURNS)] * (self.turns or MOST_PAIRS)
        turns = self.turns or min(steps, MOST_TURNS)
        if turns > steps:
            raise UsageError(f"--turns is {turns} and {option} is {steps}: give fewer turns")
        return [steps // turns + (turn < steps % turns) for turn in range(turns)]


def limit_of(within: str | None, see: str | None) -> float:
    """The seconds of --within, beside --see; without end where it is not given.

    Raises UsageError where it is no time, none at all, or --see is not given.
    """
    if within is None:
        return math.inf
    if see is None:
        raise UsageError("--within is about --see, and there is none: leave it out")
    seconds = parse_seconds(within)
    if not seconds:
        raise UsageError("--within is no time at all: write more, as 10min")
    return seconds
