"""The answer about several strategies, measured or simulated."""

from collections.abc import Mapping
from dataclasses import dataclass

from steptime.runs.figures import StepFigures, fastest
from steptime.study.race import Race
from steptime.timeline import Timeline


@dataclass(frozen=True)
class Comparison:
    """Figures of every strategy, and the timeline of all of them in turn.

    ``race``: how they stand to each other where they took turns. A simulation is exact without.
    """

    strategies: Mapping[str, StepFigures]
    timeline: Timeline
    race: Race | None = None

    @property
    def fastest(self) -> str:
        """The strategy with the shortest median step."""
        return fastest(self.strategies)

    @property
    def winner(self) -> str | None:
        """The fastest strategy, where that can be told."""
        return self.race.winner if self.race else self.fastest
