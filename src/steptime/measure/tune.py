"""Tuning: the fastest algorithm for each size, measured so that noise does not decide."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steptime.collectives.selection import BUILTIN, Choice, Selection
from steptime.measure.bench import Bench, size_of, wrong_elements
from steptime.measure.exact import ExactData
from steptime.measure.timing import Average, Effort, back_to_back
from steptime.measure.transport import BenchTransport
from steptime.measure.trial import Trial, prepare, trial

_ROUNDS = 7
_SWITCH = 0.1
"""The least total gain, as a fraction of a time, for which the algorithm changes from one size to
the next: less is noise."""


@dataclass(frozen=True)
class Contest:
    """The median times of all algorithms at one size, in seconds, by name."""

    size_bytes: int
    seconds: Mapping[str, float]
    wrong: int

    @property
    def fastest(self) -> str:
        """The name with the shortest median."""
        return min(self.seconds, key=self.seconds.__getitem__)


def contests(
    transport: BenchTransport,
    bench: Bench,
    hosts: tuple[int, ...],
    on_contest: Callable[[Contest], None],
) -> list[Contest]:
    """Measure all algorithms at every size, in place where possible.

    They take turns: a few operations of each, round after round, so that what slows the machine for
    a while slows all of them. A time is that of the slowest rank, the median of the rounds.
    """
    found = []
    for data in bench.data(transport.ranks):
        found.append(_contest(transport, bench, data, hosts))
        on_contest(found[-1])
    return found


def _contest(
    transport: BenchTransport, bench: Bench, data: ExactData, hosts: tuple[int, ...]
) -> Contest:
    trials: dict[str, Trial] = {}
    wrong = 0
    for algorithm in bench.algorithms:
        ready = trial(transport, data, algorithm, hosts, in_place=True)
        ready = ready or trial(transport, data, algorithm, hosts, in_place=False)
        if ready:
            wrong += wrong_elements(transport, ready, data, bench.checks) or 0
            prepare(transport, ready, data)
            trials[algorithm.name if algorithm else BUILTIN] = ready
    rounds = np.empty((_ROUNDS, len(trials)))
    effort = Effort(1, max(1, bench.effort.iterations // _ROUNDS))
    for times in rounds:
        for i, ready in enumerate(trials.values()):
            times[i] = Average.MAX.of(back_to_back(transport, ready.run, effort))
    medians = np.median(rounds, axis=0).tolist()
    return Contest(size_of(data), dict(zip(trials, medians, strict=True)), wrong)


def select(collective: str, found: Sequence[Contest]) -> Selection:
    """The selection that loses least against the fastest of every size, with few changes.

    Minimises the sum of log(time / fastest) over the sizes, plus a constant for every change of
    algorithm (Viterbi), so that equally good algorithms do not alternate. A change lies half way
    between two sizes, on a logarithmic scale.
    """
    names = list(found[0].seconds)
    times = np.array([[contest.seconds[name] for name in names] for contest in found])
    path = _cheapest_path(np.log(times / times.min(axis=1, keepdims=True)), np.log1p(_SWITCH))
    choices, first = [], 0
    for at in range(len(path)):
        last = at + 1 == len(path)
        if last or path[at] != path[at + 1]:
            sizes = found[at].size_bytes, found[-1 if last else at + 1].size_bytes
            end = None if last else round((sizes[0] * sizes[1]) ** 0.5)
            choices.append(Choice(names[path[at]], first, end))
            first = end or 0
    return Selection(collective, tuple(choices))


def _cheapest_path(costs: NDArray[np.float64], switch: float) -> list[int]:
    """A column for each row of ``costs``, shape (rows, columns); each change costs ``switch``."""
    columns = np.arange(costs.shape[1])
    change = np.where(columns[:, None] == columns, 0.0, switch)
    total, came_from = costs[0], []
    for row in costs[1:]:
        through = total[:, None] + change  # (from, to)
        came_from.append(through.argmin(axis=0))
        total = through.min(axis=0) + row
    path = [int(total.argmin())]
    for origins in reversed(came_from):
        path.append(int(origins[path[-1]]))
    return path[::-1]
