"""Session: a whole measurement: rows, fits, links; and its record for run.json."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from steptime.collectives import Algorithm
from steptime.collectives.price import time as schedule_time
from steptime.dtypes import dtype_named
from steptime.measure.bench import Bench, Row, Sized, measure, size_of
from steptime.measure.contest import Contest
from steptime.measure.exact import ExactData
from steptime.measure.fit import Fit, fit
from steptime.measure.links import Pair, measure_pairs
from steptime.measure.operation import operation_named
from steptime.measure.timing import Average, Effort, back_to_back
from steptime.measure.transport import BenchTransport
from steptime.measure.trial import plan_of, trial
from steptime.runs import run_folder

_NEIGHBOUR_BYTES = (4, 1 << 10, 16 << 10, 256 << 10, 1 << 20, 4 << 20)
_REDUCED_BYTES = 1 << 20
_PAIR_BYTES = 1 << 20


@dataclass(frozen=True)
class Machine:
    """The cost of a message between neighbours while all ranks send, and of a reduction."""

    message: Fit
    gamma_s: float
    """Seconds to reduce a byte."""


@dataclass(frozen=True)
class Session:
    """A whole measurement. ``fits``: t = alpha + size/beta of each algorithm, None for one size.

    ``contests``: of the algorithms at each size, none where there is but one.
    """

    rows: Sequence[Row]
    contests: Sequence[Contest]
    fits: Mapping[str, Fit | None]
    machine: Machine | None


def run(
    transport: BenchTransport,
    bench: Bench,
    hosts: tuple[int, ...],
    on_size: Callable[[Sized], None],
) -> Session:
    """Measure all that ``bench`` names; ``on_size`` is called with the rows of each size at once.

    Messages between neighbours are measured first; the schedules' times are predicted from them.
    """
    predicts = transport.ranks > 1 and any(bench.algorithms)
    machine = measure_machine(transport, bench) if predicts else None
    named = dict(zip(bench.names, bench.algorithms, strict=True))
    sizes = []
    for measured in measure(transport, bench, hosts):
        rows = [
            replace(row, predicted_us=_predicted_us(bench, row, algorithm, hosts, machine))
            if machine and (algorithm := named[row.algorithm])
            else row
            for row in measured.rows
        ]
        sizes.append(replace(measured, rows=rows))
        on_size(sizes[-1])
    all_rows = [row for size in sizes for row in size.rows]
    contests = [size.contest for size in sizes] if len(named) > 1 else []
    return Session(all_rows, contests, _fits(all_rows), machine)


def measure_machine(transport: BenchTransport, bench: Bench) -> Machine | None:
    """The cost of messages and reductions here, up to the size of the bench's largest."""
    operation, dtype = operation_named("sendrecv"), bench.dtype
    sizes: list[int] = []
    seconds: list[float] = []
    for nbytes in _NEIGHBOUR_BYTES:
        count = operation.count(nbytes, dtype.size, transport.ranks)
        data = ExactData(operation, dtype, "sum", transport.ranks, 0, count)
        shift = trial(transport, data, None, (0,) * transport.ranks, in_place=False)
        if shift and (nbytes <= max(bench.sizes) or len(sizes) < 2):
            effort = Effort(max(1, bench.effort.warmup), bench.effort.iterations)
            sizes.append(size_of(data))
            seconds.append(Average.MEAN.of(back_to_back(transport, shift.run, effort)))
    message = fit(sizes, seconds)
    return Machine(message, _gamma(transport, bench)) if message else None


def _gamma(transport: BenchTransport, bench: Bench) -> float:
    if not bench.operation.reduces:
        return 0.0
    elements = _REDUCED_BYTES // bench.dtype.size
    into, other = (transport.empty(elements, bench.dtype) for _ in range(2))
    into[:], other[:] = 1, 1
    reduce = transport.reducer(bench.reduction)
    effort = Effort(2, bench.effort.iterations)
    seconds = back_to_back(transport, lambda: reduce(into, other), effort)
    return Average.MEAN.of(seconds) / _REDUCED_BYTES


def _predicted_us(
    bench: Bench, row: Row, algorithm: Algorithm, hosts: tuple[int, ...], machine: Machine
) -> float:
    data = ExactData(
        bench.operation, dtype_named(row.dtype), bench.reduction, row.ranks, bench.root, row.count
    )
    message = machine.message
    seconds = schedule_time(
        plan_of(data, algorithm, hosts),
        row.size_bytes,
        message.alpha_s,
        message.beta_s,
        machine.gamma_s,
    )
    return float(seconds) * 1e6


def _fits(rows: Sequence[Row]) -> dict[str, Fit | None]:
    fits = {}
    for name in dict.fromkeys(row.algorithm for row in rows):
        of_it = [row for row in rows if row.algorithm == name]
        times = [row.out_of_place.time_us / 1e6 for row in of_it]
        fits[name] = fit([row.size_bytes for row in of_it], times)
    return fits


def measure_links(transport: BenchTransport, bench: Bench) -> list[Pair]:
    """Latency and bandwidth between every two ranks."""
    elements = max(1, min(max(bench.sizes), _PAIR_BYTES) // bench.dtype.size)
    return list(measure_pairs(transport, bench.dtype, elements, bench.effort))


def record(
    verb: str, bench: Bench, session: Session, pairs: Sequence[Pair], place: Mapping[str, Any]
) -> dict[str, Any]:
    """The record for run.json; ``place``: the run's folder, ranks, backend and so on."""
    machine = session.machine
    return {
        "verb": verb,
        "source": "measured",
        **place,
        "op": bench.operation.name,
        "iterations": bench.effort.iterations,
        "warmup": bench.effort.warmup,
        "average_over_ranks": bench.average.name.lower(),
        "registered": bench.registered,
        "rows": [{"backend": place["backend"], **asdict(row)} for row in session.rows],
        **contests_record(bench, session.contests),
        "fits": {name: _fit(found) for name, found in session.fits.items() if found},
        "message": _fit(machine.message) if machine else None,
        **({"pairs": [pair_record(pair) for pair in pairs]} if pairs else {}),
        "environment": run_folder.environment(own=place["ranks"] * place["threads"]),
    }


def contests_record(bench: Bench, contests: Sequence[Contest]) -> dict[str, Any]:
    """How algorithms took turns and stand to each other, as in run.json; {} where none did."""
    if not contests:
        return {}
    return {"seed": bench.seed, "see": bench.turns.part, "contests": [c.record() for c in contests]}


def _fit(found: Fit) -> dict[str, Any]:
    return {
        "source": "computed",
        "alpha_us": found.alpha_s * 1e6,
        "beta_GBps": found.bandwidth / 1e9 if found.beta_s else None,
        "residual": found.residual,
    }


def pair_record(pair: Pair) -> dict[str, Any]:
    """A pair as in run.json."""
    return {
        "source": "measured",
        "src": pair.src,
        "dst": pair.dst,
        "latency_us": pair.latency_s * 1e6,
        "bandwidth_GBps": pair.bandwidth / 1e9,
        "bidirectional_GBps": pair.bidirectional / 1e9,
    }
