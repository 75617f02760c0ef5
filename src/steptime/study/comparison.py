"""The answer about several strategies, measured or simulated."""

from collections.abc import Mapping
from dataclasses import dataclass

from steptime.runs.figures import StepFigures, fastest
from steptime.timeline import Timeline


@dataclass(frozen=True)
class Comparison:
    """Figures of every strategy, and the timeline of all of them in turn."""

    strategies: Mapping[str, StepFigures]
    timeline: Timeline

    @property
    def winner(self) -> str:
        """The strategy with the shortest median step."""
        return fastest(self.strategies)
