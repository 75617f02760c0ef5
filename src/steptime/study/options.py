"""How a step is simulated: frozen, checked, and quick to import."""

from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

from steptime.errors import UsageError
from steptime.limits import check_within

_MOST_STEPS = 1000
FidelityName: TypeAlias = Literal["auto", "message", "collective"]

MOST_RANKS_BY_MESSAGE = 128
"""Up to so many ranks auto simulates every message: a handful of seconds for a GPT-2."""


@dataclass(frozen=True, kw_only=True)
class HowOptions:
    """How the step is simulated."""

    fidelity: FidelityName = "auto"
    """message: every message shares the links with all others under way; collective: each
    collective by itself, for thousands of ranks; auto: message up to 128 ranks."""

    algorithm: str = ""
    """Algorithms of collectives, as all_reduce=ring,broadcast=binomial; default: for each the one
    that is cheapest there, and NCCL's own at fidelity collective where the cluster names NCCL."""

    steps: int = 2
    """Steps to simulate, at least 2; the last is shown."""

    def __post_init__(self) -> None:
        if self.steps < 2:
            raise UsageError(
                f"--steps is {self.steps}: it must be at least 2, for only what follows a step is "
                "in the steady state"
            )
        check_within("--steps", self.steps, 2, _MOST_STEPS)
        self.algorithms()

    def given(self) -> list[str]:
        """The fields about which something else than the default was said."""
        return [one.name for one in fields(self) if getattr(self, one.name) != one.default]

    def fidelity_of(self, ranks: int) -> Literal["message", "collective"]:
        """The fidelity for so many ranks."""
        if self.fidelity == "auto":
            return "message" if ranks <= MOST_RANKS_BY_MESSAGE else "collective"
        return self.fidelity

    def algorithms(self) -> dict[str, str]:
        """The algorithm asked for of each kind of collective.

        Raises UsageError when the text names none, or two of one kind.
        """
        chosen: dict[str, str] = {}
        for part in self.algorithm.split(",") if self.algorithm else ():
            kind, equals, name = (word.strip() for word in part.partition("="))
            if not (kind and equals and name):
                raise UsageError(f"--algorithm has {part!r}: write KIND=NAME, as all_reduce=ring")
            if kind in chosen:
                raise UsageError(f"--algorithm names two for {kind}: leave one out")
            chosen[kind] = name
        return chosen
