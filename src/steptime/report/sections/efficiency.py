"""The tree of POP's efficiencies of each strategy, as far as one run tells."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    from steptime.cluster.what_if import IDEAL  # which loads the cluster's types

    changed = subject.run.record.what_if
    ideal = None
    if changed and changed.changes == IDEAL and subject.step in changed.strategies:
        ideal = _usage(changed.strategies[subject.step].ranks)
    return efficiency(usage, ideal) if usage else None


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
