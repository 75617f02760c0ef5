"""The benchmark of one operation: every size, all algorithms in turns, timed and checked."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from steptime.collectives import Algorithm
from steptime.collectives.selection import BUILTIN
from steptime.dtypes import Dtype
from steptime.measure.contest import Contest, take_turns
from steptime.measure.exact import ExactData
from steptime.measure.operation import Operation
from steptime.measure.timing import Average, Effort, Seconds, back_to_back, one_by_one
from steptime.measure.transport import BenchTransport
from steptime.measure.trial import Trial, count_wrong, elements_needed, prepare, trial
from steptime.turns import TurnOptions


@dataclass(frozen=True)
class Bench:
    """What to measure. ``algorithms``: None stands for the library's own."""

    operation: Operation
    dtype: Dtype
    reduction: str
    root: int
    sizes: tuple[int, ...]
    algorithms: tuple[Algorithm | None, ...]
    effort: Effort
    checks: int
    average: Average
    registered: bool
    turns: TurnOptions
    seed: int

    @property
    def names(self) -> list[str]:
        """The algorithms by name."""
        return [algorithm.name if algorithm else BUILTIN for algorithm in self.algorithms]

    def blocks(self, algorithms: int) -> list[int]:
        """The timed operations of each turn of several algorithms; one alone has a single block.

        Raises UsageError where there are more turns than operations.
        """
        iterations = self.effort.iterations
        return self.turns.blocks(iterations, "--iters") if algorithms > 1 else [iterations]

    def data(self, ranks: int) -> list[ExactData]:
        """The data of each size; sizes with the same element count are measured once."""
        itemsize = self.dtype.size
        counts = dict.fromkeys(self.operation.count(n, itemsize, ranks) for n in self.sizes)
        return [
            ExactData(self.operation, self.dtype, self.reduction, ranks, self.root, count)
            for count in counts
        ]

    def bytes_needed(self, ranks: int) -> int:
        """What one rank's buffers take at the largest size, of all algorithms, in bytes."""
        largest = max(self.data(ranks), key=lambda data: data.count)
        return self.dtype.size * sum(elements_needed(largest, a) for a in self.algorithms)


@dataclass(frozen=True)
class Figures:
    """Out of place or in place: half of a row of nccl-tests; ``wrong`` is None if unchecked."""

    time_us: float
    algbw_GBps: float  # noqa: N815
    busbw_GBps: float  # noqa: N815
    wrong: int | None


@dataclass(frozen=True)
class Latency:
    """OSU's figures: over the ranks, the mean of each rank's times of single operations."""

    avg_us: float
    min_us: float
    max_us: float


@dataclass(frozen=True)
class Row:
    """The figures of one size under one algorithm, as in run.json.

    ``out_of_place`` and ``in_place`` are timed back to back. ``p50_us``, ``p99_us``, ``cv`` and
    ``latency`` come from as many operations out of place that all ranks begin together; an
    operation takes as long as on the slowest rank. ``against_best``: how many times the best
    algorithm's time out of place it takes, by pairs of turns, and ``ci99`` what holds that; None
    where no algorithms took turns.
    """

    source: str
    algorithm: str
    op: str
    dtype: str
    redop: str
    root: int
    ranks: int
    size_bytes: int
    count: int
    out_of_place: Figures
    in_place: Figures | None
    p50_us: float
    p99_us: float
    cv: float
    latency: Latency
    against_best: float | None = None
    ci99: tuple[float, float] | None = None
    predicted_us: float | None = None
    """The schedule's predicted time, if each message takes what it does between neighbours."""


@dataclass(frozen=True)
class Sized:
    """The rows of one size, and the contest of its algorithms out of place."""

    rows: Sequence[Row]
    contest: Contest


def measure(transport: BenchTransport, bench: Bench, hosts: tuple[int, ...]) -> Iterator[Sized]:
    """Measure size after size; every rank yields the same rows. ``hosts``: the host of each rank.

    Several algorithms take turns: first out of place, then those that can in place.
    """
    for data in bench.data(transport.ranks):
        one_by_one_s: dict[str, list[Seconds]] = {name: [] for name in bench.names}
        apart = _trials(transport, bench, data, hosts, in_place=False)
        contest, separate = _figures(transport, bench, data, apart, one_by_one_s)
        del apart  # both kinds of buffers need not fit at once
        over = _trials(transport, bench, data, hosts, in_place=True)
        within = _figures(transport, bench, data, over, None)[1] if over else {}
        rows = [
            _row(
                data,
                name,
                (separate[name], within.get(name)),
                np.concatenate(one_by_one_s[name], axis=1),
                contest.ratio(at) if len(bench.names) > 1 else None,
            )
            for at, name in enumerate(bench.names)
        ]
        yield Sized(rows, contest)


def _trials(
    transport: BenchTransport,
    bench: Bench,
    data: ExactData,
    hosts: tuple[int, ...],
    *,
    in_place: bool,
) -> dict[str, Trial]:
    """The trials by name of all algorithms that can run so."""
    made = (trial(transport, data, one, hosts, in_place=in_place) for one in bench.algorithms)
    return {name: one for name, one in zip(bench.names, made, strict=True) if one}


def _row(
    data: ExactData,
    name: str,
    halves: tuple[Figures, Figures | None],
    seconds: Seconds,
    ratio: tuple[float, tuple[float, float]] | None,
) -> Row:
    """The row of one algorithm; ``seconds`` of single operations, shape (ranks, operations)."""
    slowest, of_ranks = seconds.max(axis=0), seconds.mean(axis=1)
    operation = data.operation
    return Row(
        source="measured",
        algorithm=name,
        op=operation.name,
        dtype=data.dtype.name,
        redop=data.reduction if operation.reduces else "none",
        root=data.root if operation.rooted else -1,
        ranks=data.ranks,
        size_bytes=size_of(data),
        count=data.count,
        out_of_place=halves[0],
        in_place=halves[1],
        p50_us=float(np.percentile(slowest, 50)) * 1e6,
        p99_us=float(np.percentile(slowest, 99)) * 1e6,
        cv=float(slowest.std() / slowest.mean()),
        latency=Latency(*(float(f(of_ranks)) * 1e6 for f in (np.mean, np.min, np.max))),
        against_best=ratio[0] if ratio else None,
        ci99=ratio[1] if ratio else None,
    )


def size_of(data: ExactData) -> int:
    """The size in bytes, as nccl-tests counts it."""
    return data.operation.elements(data.count, data.ranks) * data.dtype.size


def _figures(
    transport: BenchTransport,
    bench: Bench,
    data: ExactData,
    trials: Mapping[str, Trial],
    singles: dict[str, list[Seconds]] | None,
) -> tuple[Contest, dict[str, Figures]]:
    """Time trials that take turns, then check them; ``singles`` gets single operations too."""

    def timed(name: str, effort: Effort) -> float:
        seconds = back_to_back(transport, trials[name].run, effort)
        if singles is not None:
            singles[name].append(one_by_one(transport, trials[name].run, effort.iterations))
        return bench.average.of(seconds)

    for one in trials.values():
        prepare(transport, one, data)
    contest = take_turns(transport, bench, size_of(data), list(trials), timed)
    found = {}
    weights = bench.blocks(len(trials))[: len(contest.seconds)]
    means = np.average(contest.seconds, axis=0, weights=weights).tolist()
    for (name, one), seconds in zip(trials.items(), means, strict=True):
        algbw = size_of(data) / seconds / 1e9
        found[name] = Figures(
            time_us=seconds * 1e6,
            algbw_GBps=algbw,
            busbw_GBps=algbw * data.operation.bus(data.ranks),
            wrong=wrong_elements(transport, one, data, bench.checks),
        )
    return contest, found


def wrong_elements(
    transport: BenchTransport, trial: Trial, data: ExactData, checks: int
) -> int | None:
    """Wrong elements of all ranks in ``checks`` operations, each on new data; None for 0 checks."""
    if not checks or not data.operation.moves:
        return None
    wrong = 0
    for number in range(checks):
        fresh = replace(data, trial=data.trial + 1 + number)
        prepare(transport, trial, fresh)
        transport.barrier()
        trial.run()
        transport.finish()
        wrong += count_wrong(transport, trial, fresh)
    return int(transport.gather(np.array(float(wrong))).sum())


def wrong_in_all(rows: Sequence[Row]) -> int:
    """Wrong elements of all rows together."""
    halves = [half for row in rows for half in (row.out_of_place, row.in_place) if half]
    return sum(half.wrong or 0 for half in halves)
