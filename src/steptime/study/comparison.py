"""The answer about several strategies, measured or simulated."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from steptime.strategies import BASELINE
from steptime.timeline import Timeline
from steptime.train.figures import StrategyFigures


@dataclass(frozen=True)
class Comparison:
    """Figures of every strategy, and the timeline of all of them in turn."""

    strategies: Mapping[str, StrategyFigures]
    timeline: Timeline

    @property
    def winner(self) -> str:
        """The strategy with the shortest median step."""
        return min(self.strategies, key=lambda name: self.strategies[name].step_time_s.median)

    def speed_against_server(self, name: str) -> float | None:
        """How many steps of ``name`` fit into one of the server strategy, if that ran too."""
        if BASELINE not in self.strategies:
            return None
        baseline = self.strategies[BASELINE].step_time_s.median
        return baseline / self.strategies[name].step_time_s.median

    def entries(self) -> dict[str, dict[str, Any]]:
        """What run.json holds of each strategy."""
        return {
            name: asdict(figures) | {"speed_against_server": self.speed_against_server(name)}
            for name, figures in self.strategies.items()
        }
