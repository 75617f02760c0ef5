"""Sampling: which token comes next, of the scores that a model gives them all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from steptime.errors import UsageError
from steptime.limits import check_limits, check_within

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MOST_TEMPERATURE = 1e6


@dataclass(frozen=True, kw_only=True)
class SamplingOptions:
    """How text is drawn from a model."""

    tokens: int = 200
    """Tokens to write, at most: the end of a text ends it."""

    temperature: float = 0.8
    """Scores are divided by it: below 1 the likely becomes likelier; 0 takes the likeliest."""

    top_k: int | None = None
    """Draw from so many of the likeliest tokens."""

    top_p: float | None = None
    """Draw from the likeliest tokens that together have at least this chance."""

    seed: int = 0
    """The same seed draws the same text."""

    def __post_init__(self) -> None:
        check_limits(self)
        check_within("--temperature", self.temperature, 0, _MOST_TEMPERATURE)
        if self.top_k is not None:
            check_within("--top-k", self.top_k, 1, 1 << 40)
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise UsageError(f"--top-p is {self.top_p}: it must be above 0 and at most 1")


def drawn(
    scores: NDArray[np.floating], how: SamplingOptions, generator: np.random.Generator
) -> int:
    """The id of a token by ``scores``, shape (V,), in natural logarithms.

    First the temperature, then ``top_k``, then ``top_p`` of what is left: nucleus sampling
    (Holtzman et al., arXiv 1904.09751). One number is drawn a token, whatever the options.
    """
    import numpy as np  # here, so that the help of generate does not wait for it

    number = generator.random()
    order = np.argsort(-scores, kind="stable")
    if how.temperature == 0:
        return int(order[0])
    best = scores[order[: how.top_k]].astype(np.float64)
    chances = np.exp((best - best[0]) / how.temperature)
    reached = np.cumsum(chances / chances.sum())
    if how.top_p is not None:
        # The first that reaches top_p is in: so one is always left.
        reached = reached[: int(np.searchsorted(reached, how.top_p)) + 1]
    place = int(np.searchsorted(reached, number * reached[-1], side="right"))
    return int(order[min(place, len(reached) - 1)])
