"""How far predictions are from what was measured: errors, ranks, regret, what fits."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steptime.arrays import Floats

_FEWEST_RANKED = 3  # of two there is one order or the other


def errors(predicted: Floats, measured: Floats) -> Floats:
    """Signed relative errors, shape as of both: above 0 where the prediction is too long."""
    return np.asarray(predicted / measured - 1)


def ranks(values: Floats) -> Floats:
    """The ranks of values from 0, those that are equal sharing their mean, shape (n,)."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts + 1) / 2)[place])


def spearman(one: Floats, other: Floats) -> float | None:
    """Spearman's coefficient, Pearson's of the ranks; None of under 3 or where all are equal."""
    if len(one) < _FEWEST_RANKED:
        return None
    first, second = ranks(one), ranks(other)
    if first.std() == 0 or second.std() == 0:
        return None
    return float(np.corrcoef(first, second)[0, 1])


def regret(predicted: Floats, measured: Floats) -> float:
    """What of the best measured throughput is lost by taking the one that is predicted the best.

    Of equal predictions the first counts.
    """
    return float(1 - measured[np.argmax(predicted)] / measured.max())


def balanced_accuracy(said: NDArray[np.bool_], true: NDArray[np.bool_]) -> float | None:
    """The mean of the shares that are told right of either kind; None where one kind is absent."""
    if true.all() or not true.any():
        return None
    return float((said[true].mean() + (~said[~true]).mean()) / 2)


def one_rate(work: Floats, measured: Floats) -> float:
    """The rate c for which ``work / c`` has the least mean absolute error relative to measured.

    The error is a weighted sum of distances from 1/c, so that the weighted median is the least.
    """
    weights = work / measured
    order = np.argsort(1 / weights)
    below = np.cumsum(weights[order])
    middle = order[np.searchsorted(below, below[-1] / 2)]
    return float(weights[middle])


@dataclass(frozen=True, kw_only=True)
class Cells:
    """Ranks and regret over the cells of a source: None where no cell tells."""

    cells: int
    spearman: float | None
    regret_mean: float | None
    regret_max: float | None


def over_cells(keys: Sequence[Hashable], predicted: Floats, measured: Floats) -> Cells:
    """Ranks and regret of throughputs in each cell of equal keys: of 2 rows or more."""
    members: dict[Hashable, list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        members[key].append(place)
    groups = [places for places in members.values() if len(places) > 1]
    lost = [regret(predicted[places], measured[places]) for places in groups]
    orders = [spearman(predicted[places], measured[places]) for places in groups]
    known = [one for one in orders if one is not None]
    return Cells(
        cells=len(groups),
        spearman=float(np.median(known)) if known else None,
        regret_mean=float(np.mean(lost)) if lost else None,
        regret_max=max(lost) if lost else None,
    )
