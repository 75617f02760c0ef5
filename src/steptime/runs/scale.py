"""The record of a scaling study: its cells, each held against one of them in the terms of POP."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steptime.runs.codec import decoded, plain
from steptime.runs.environment import ALWAYS, Environment
from steptime.runs.expected import Expected
from steptime.runs.figures import ComputeSpeed, ModelMemory, promised
from steptime.runs.record import Work
from steptime.runs.utilisation import Utilisation
from steptime.timeline import Source


@dataclass(frozen=True, kw_only=True)
class StepTimes:
    """A step as long as its slowest rank took, over all steps that were timed, in seconds.

    ``mean`` is that of the rank that all steps together took the longest: what speedups are of.
    """

    mean: float
    median: float
    p10: float
    p90: float


@dataclass(frozen=True, kw_only=True)
class UsefulTime:
    """Seconds that the ranks compute and update in a step: their mean, and the longest."""

    mean: float
    longest: float


@dataclass(frozen=True, kw_only=True)
class ExposedTime:
    """Seconds of a step in which a rank does nothing but communicate or wait, and their parts."""

    exposed_comm_s: float = 0.0
    transfer_s: float = 0.0
    bubble_s: float = 0.0
    imbalance_s: float = 0.0
    dependency_s: float = 0.0


def exposed_time(table: NDArray[np.void], suffix: str = "") -> ExposedTime:
    """The means over rows of a table with a field for each part, called so and ``suffix``."""
    names = [part.name.removesuffix("_s") for part in fields(ExposedTime)]
    means = {f"{name}_s": float(table[f"{name}{suffix}"].mean()) for name in names}
    return ExposedTime(**means)


@dataclass(frozen=True)
class CellBound:
    """The factor that costs the most, and what it says of the step.

    ``factor``: computation, load balance, serialisation, transfer, other work, or nothing.
    """

    factor: str
    sentence: str


@dataclass(frozen=True, kw_only=True)
class ScaleCell:
    """So many ranks of so many threads under a strategy, and what has become of the baseline.

    ``execution``: sequential, fork-join, blocking or overlapped. ``step_time_s``: the mean. The
    factors are those of ``timeline.efficiency``. ``oversubscribed``: on too few cores. ``folder``:
    that of the cell's trace within the run. ``exposed_comm_s`` and its parts are as those of
    ``ExposedTime``, None of a run that did not tell them. ``speedup_ci95``: what holds the true
    speedup, of all cells together with 95 %, where the cell took turns with the baseline.
    """

    ranks: int
    threads: int
    strategy: str
    execution: str
    source: Source
    step_time_s: float
    step_time_spread_s: StepTimes
    iterations: int
    tokens_per_s: float | None = field(metadata=ALWAYS)
    tokens_per_s_scaling: float | None = field(metadata=ALWAYS)
    useful_s: UsefulTime
    other_s: float
    exposed_comm_s: float | None = None
    transfer_s: float | None = None
    bubble_s: float | None = None
    imbalance_s: float | None = None
    dependency_s: float | None = None
    ideal_step_time_s: float
    ideal_source: Source = "simulated"
    speedup: float
    efficiency: float
    computation_scalability: float
    global_efficiency: float
    parallel_efficiency: float
    load_balance: float
    communication_efficiency: float
    serialisation_efficiency: float | None = field(metadata=ALWAYS)
    transfer_efficiency: float | None = field(metadata=ALWAYS)
    oversubscribed: bool
    speedup_ci95: tuple[float, float] | None = None
    bound: CellBound
    folder: str
    model_memory: ModelMemory | None = None
    compute_speed: ComputeSpeed | None = None
    utilisation: Utilisation | None = None
    expected: Expected | None = None

    @property
    def fits(self) -> bool | None:
        """Whether its device has the memory; None where nobody can tell."""
        return self.model_memory.fits if self.model_memory else None

    @property
    def workers(self) -> int:
        """Threads of all ranks together."""
        return self.ranks * self.threads


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """The cell that the others are held against, ``name`` as 1x1."""

    name: str
    ranks: int
    threads: int
    strategy: str
    source: Source
    step_time_s: float
    tokens_per_s: float | None = field(metadata=ALWAYS)

    def holds(self, cell: ScaleCell) -> bool:
        """Whether that is this cell."""
        own = (self.ranks, self.threads, self.strategy)
        return own == (cell.ranks, cell.threads, cell.strategy)


@dataclass(frozen=True, kw_only=True)
class ScaleRecord:
    """A scaling study, here on so many ``cores`` or on a cluster.

    ``scaling``: weak or strong; the batch of ``work`` is that of each rank or of all, or
    None where each replica has as many rows as by default. ``in_turns``: whether the points of a
    live study took turns, or ran one after the other.
    """

    verb: str = "scale"
    run: str = ""
    work: Work
    scaling: str
    backend: str | None = None
    cores: int | None = None
    steps: int | None = None
    warmup: int | None = None
    in_turns: bool | None = None
    cluster: str | None = None
    cluster_title: str | None = None
    cluster_source: str | None = None
    baseline: Baseline
    cells: Sequence[ScaleCell]
    environment: Environment

    @property
    def base(self) -> ScaleCell:
        """The cell that the others are held against."""
        return next(cell for cell in self.cells if self.baseline.holds(cell))


def scale_record(raw: Mapping[str, Any], name: str = "") -> ScaleRecord:
    """What JSON says of the study ``name``, checked; raises UsageError where it is not whole."""
    return decoded({**raw, "work": decoded(raw, Work, name)}, ScaleRecord, name)


def scale_json(record: ScaleRecord) -> dict[str, Any]:
    """The content of its run.json."""
    raw: dict[str, Any] = plain(record)
    raw |= raw.pop("work")
    raw["cells"] = [promised(cell) for cell in raw["cells"]]
    if (fits := record.base.fits) is not None:
        raw["baseline"]["fits"] = fits
    return raw
