"""The tree of POP's efficiencies of each strategy, as far as one run tells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isnan
from typing import Any

from steptime.errors import UsageError
from steptime.report.section import Page, Section
from steptime.report.subject import Subject
from steptime.runs.figures import RankFigures
from steptime.timeline.efficiency import Efficiency, Usage, efficiency

TITLES = (
    ("parallel_efficiency", "parallel efficiency", "of the ranks’ time is useful", 0),
    ("load_balance", "load balance", "mean useful time over the longest", 1),
    ("communication_efficiency", "communication", "longest useful time over the step", 1),
    ("serialisation_efficiency", "serialisation", "the same on an ideal network", 2),
    ("transfer_efficiency", "transfer", "what the network costs beyond that", 2),
)
_GOOD = 0.8  # POP reads more than that as acceptable


@dataclass(frozen=True)
class Level:
    """One efficiency of all strategies: its title, what it means and how deep it is in the tree.

    ``cells``: the value of each strategy in per cent, and whether it is low.
    """

    title: str
    meaning: str
    depth: int
    cells: list[tuple[str, float | None]]


def efficiency_tree(subjects: list[Subject]) -> list[Level]:
    """The levels that any strategy has a value for; none where no rank computes."""
    found = [_efficiency(subject) for subject in subjects]
    levels = []
    for field, title, meaning, depth in TITLES:
        values = [getattr(one, field) if one else None for one in found]
        if any(value is not None for value in values):
            cells = [(_percent(value), value) for value in values]
            levels.append(Level(title, meaning, depth, cells))
    return levels


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}\u00a0%"


def _efficiency(subject: Subject) -> Efficiency | None:
    usage = _usage(subject.entry.ranks)
    if usage is None:
        return None
    ideal_s = subject.entry.ideal_step_s or _without_transfer(subject.entry.ranks, usage)
    return efficiency(usage, replace(usage, run_time_s=ideal_s) if ideal_s else None)


def _without_transfer(ranks: Sequence[RankFigures], usage: Usage) -> float | None:
    """How long the step takes less the transfer that was measured; None where nobody told it.

    That is the step on an ideal network to first order: what is on its way is there at once, and
    the ranks wait for one another as they did.
    """
    transfers = [rank.transfer_s for rank in ranks if rank.transfer_s is not None]
    if len(transfers) < len(ranks):
        return None
    return max(usage.run_time_s - sum(transfers) / len(transfers), usage.longest_s)


def _usage(ranks: Sequence[RankFigures]) -> Usage | None:
    """What the ranks did; None where nobody knows it of every rank, or none computes."""
    if not ranks or any(isnan(rank.compute_s) for rank in ranks):
        return None
    try:
        return Usage(
            useful_s=tuple(rank.compute_s + rank.update_s for rank in ranks),
            run_time_s=max(rank.step_time_s for rank in ranks),
        )
    except UsageError:
        return None  # steps of no time, or in which no rank computes


def _shown(page: Page) -> Mapping[str, Any] | None:
    levels = efficiency_tree(page.subjects)
    return {"efficiency": levels} if levels else None


SECTION = Section("efficiency", 120, _shown)
