"""The tree of POP's efficiencies of each strategy, as far as one run tells."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steptime.errors import UsageError
from steptime.report.subject import Subject
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
    usage = _usage(subject.entry)
    from steptime.cluster.what_if import IDEAL  # which loads the cluster's types

    changed = subject.run.record.get("what_if", {})
    ideal = None
    if changed.get("changes") == IDEAL and subject.step in changed["strategies"]:
        ideal = _usage(changed["strategies"][subject.step])
    return efficiency(usage, ideal) if usage else None


def _usage(entry: Mapping[str, Any]) -> Usage | None:
    """What the ranks did; None where run.json does not say it of every rank, or none computes."""
    ranks = entry["ranks"]
    if not ranks or any("compute_s" not in rank for rank in ranks):
        return None
    try:
        return Usage(
            useful_s=tuple(rank["compute_s"] + rank["update_s"] for rank in ranks),
            run_time_s=max(rank["step_time_s"] for rank in ranks),
        )
    except UsageError:
        return None  # steps of no time, or in which no rank computes
