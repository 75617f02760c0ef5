"""The answer about several strategies, measured or simulated."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from steptime.runs.figures import StepFigures, fastest
from steptime.runs.host_links import HostLink
from steptime.study.race import Race
from steptime.timeline import Timeline


@dataclass(frozen=True)
class Comparison:
    """Figures of every strategy, and the timeline of all of them in turn.

    ``race``: how they stand to each other where they took turns. A simulation is exact without.
    ``host_links``: what was carried between hosts under all of them.
    """

    strategies: Mapping[str, StepFigures]
    timeline: Timeline
    race: Race | None = None
    host_links: Sequence[HostLink] = ()

    @property
    def fastest(self) -> str:
        """The strategy with the shortest median step."""
        return fastest(self.strategies)

    @property
    def winner(self) -> str | None:
        """The fastest strategy, where that can be told."""
        return self.race.winner if self.race else self.fastest
