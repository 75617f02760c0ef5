"""The benchmark of one operation: every size, every algorithm, timed and checked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from steptime.collectives import Algorithm
from steptime.collectives.selection import BUILTIN
from steptime.dtypes import Dtype
from steptime.measure.exact import ExactData
from steptime.measure.operation import Operation
from steptime.measure.timing import Average, Effort, back_to_back, one_by_one
from steptime.measure.transport import BenchTransport
from steptime.measure.trial import Trial, count_wrong, elements_needed, prepare, trial


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

    def data(self, ranks: int) -> list[ExactData]:
        """The data of each size; sizes with the same element count are measured once."""
        itemsize = self.dtype.size
        counts = dict.fromkeys(self.operation.count(n, itemsize, ranks) for n in self.sizes)
        return [
            ExactData(self.operation, self.dtype, self.reduction, ranks, self.root, count)
            for count in counts
        ]

    def bytes_needed(self, ranks: int) -> int:
        """The maximum over all sizes of what one rank's buffers take, in bytes."""
        largest = max(self.data(ranks), key=lambda data: data.count)
        return self.dtype.size * max(elements_needed(largest, a) for a in self.algorithms)


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
    operation takes as long as on the slowest rank.
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
    predicted_us: float | None = None
    """The schedule's predicted time, if each message takes what it does between neighbours."""


def measure(transport: BenchTransport, bench: Bench, hosts: tuple[int, ...]) -> Iterator[Row]:
    """Measure row after row; every rank yields the same rows. ``hosts``: the host of each rank."""
    for data, algorithm in product(bench.data(transport.ranks), bench.algorithms):
        yield _row(transport, bench, data, algorithm, hosts)


def _row(
    transport: BenchTransport,
    bench: Bench,
    data: ExactData,
    algorithm: Algorithm | None,
    hosts: tuple[int, ...],
) -> Row:
    out_of_place = trial(transport, data, algorithm, hosts, in_place=False)
    if out_of_place is None:
        raise AssertionError(f"{data.operation.name} must be possible out of place")
    separate = _figures(transport, bench, data, out_of_place)
    seconds = one_by_one(transport, out_of_place.run, bench.effort.iterations)
    slowest, of_ranks = seconds.max(axis=0), seconds.mean(axis=1)
    del out_of_place
    within = trial(transport, data, algorithm, hosts, in_place=True)
    operation = data.operation
    return Row(
        source="measured",
        algorithm=algorithm.name if algorithm else BUILTIN,
        op=operation.name,
        dtype=data.dtype.name,
        redop=data.reduction if operation.reduces else "none",
        root=data.root if operation.rooted else -1,
        ranks=data.ranks,
        size_bytes=size_of(data),
        count=data.count,
        out_of_place=separate,
        in_place=_figures(transport, bench, data, within) if within else None,
        p50_us=float(np.percentile(slowest, 50)) * 1e6,
        p99_us=float(np.percentile(slowest, 99)) * 1e6,
        cv=float(slowest.std() / slowest.mean()),
        latency=Latency(*(float(f(of_ranks)) * 1e6 for f in (np.mean, np.min, np.max))),
    )


def size_of(data: ExactData) -> int:
    """The size in bytes, as nccl-tests counts it."""
    return data.operation.elements(data.count, data.ranks) * data.dtype.size


def _figures(transport: BenchTransport, bench: Bench, data: ExactData, trial: Trial) -> Figures:
    prepare(transport, trial, data)
    seconds = bench.average.of(back_to_back(transport, trial.run, bench.effort))
    algbw = size_of(data) / seconds / 1e9
    return Figures(
        time_us=seconds * 1e6,
        algbw_GBps=algbw,
        busbw_GBps=algbw * data.operation.bus(data.ranks),
        wrong=wrong_elements(transport, trial, data, bench.checks),
    )


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
