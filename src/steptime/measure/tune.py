"""Tuning: an algorithm for each size that no other is told to beat, and few changes of it."""

from collections.abc import Callable, Sequence

import numpy as np

from steptime.arrays import Floats
from steptime.collectives.selection import Choice, Selection
from steptime.errors import SteptimeError
from steptime.measure.bench import Bench, size_of, wrong_elements
from steptime.measure.contest import Contest, take_turns
from steptime.measure.exact import ExactData
from steptime.measure.timing import Average, Effort, back_to_back
from steptime.measure.transport import BenchTransport
from steptime.measure.trial import Trial, prepare, trial
from steptime.units import Size


def contests(
    transport: BenchTransport,
    bench: Bench,
    hosts: tuple[int, ...],
    on_contest: Callable[[Contest], None],
) -> list[Contest]:
    """Let all algorithms take turns at every size, in place where possible.

    A time is that of the slowest rank. Raises SteptimeError where a result is wrong.
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
    for name, algorithm in zip(bench.names, bench.algorithms, strict=True):
        ready = trial(transport, data, algorithm, hosts, in_place=True)
        ready = ready or trial(transport, data, algorithm, hosts, in_place=False)
        if ready:
            if wrong := wrong_elements(transport, ready, data, bench.checks):
                raise SteptimeError(
                    f"{wrong} elements of the results of {name} are wrong at "
                    f"{Size(size_of(data))}, so nothing is selected: leave it out of --algorithms"
                )
            prepare(transport, ready, data)
            trials[name] = ready

    def timed(name: str, effort: Effort) -> float:
        return Average.MAX.of(back_to_back(transport, trials[name].run, effort))

    return take_turns(transport, bench, size_of(data), list(trials), timed)


def select(collective: str, found: Sequence[Contest]) -> Selection:
    """The selection with the fewest changes that takes the best or one level with it everywhere.

    Of several such the one whose algorithms seem the fastest: that minimises the sum over the sizes
    of log(time / best). A change lies half way between two sizes, on a logarithmic scale.
    """
    names = found[0].names
    path = _path(np.stack([_costs(contest) for contest in found]))
    choices, first = [], 0
    for at in range(len(path)):
        last = at + 1 == len(path)
        if last or path[at] != path[at + 1]:
            sizes = found[at].size_bytes, found[-1 if last else at + 1].size_bytes
            end = None if last else round((sizes[0] * sizes[1]) ** 0.5)
            choices.append(Choice(names[path[at]], first, end))
            first = end or 0
    return Selection(collective, tuple(choices))


def _costs(contest: Contest) -> Floats:
    """By how much the logarithm of each time is above the best's, inf where that is told."""
    logs = np.log(contest.seconds).mean(axis=0)
    costs = np.full(logs.shape, np.inf)
    standing = [contest.best, *contest.level]
    costs[standing] = logs[standing] - logs[contest.best]
    return costs


def _path(costs: Floats) -> list[int]:
    """A column for each row of ``costs``, shape (rows, columns), with the fewest changes.

    Of all such the one that costs least (Viterbi): a change costs more than all rows together, and
    inf is not taken. Each row has a column that costs 0.
    """
    switch = 1.0 + costs[np.isfinite(costs)].sum()
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
