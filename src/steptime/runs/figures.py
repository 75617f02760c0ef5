"""What came out of a step, measured or simulated: the figures of one strategy, with their source.

Seconds and bytes are those of one step unless a name says otherwise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from steptime.runs.axis_time import AxisTime
from steptime.runs.environment import ALWAYS
from steptime.runs.expected import Expected
from steptime.runs.utilisation import Utilisation
from steptime.timeline import Source

SLOWEST = "server"
"""The strategy that the speeds of the others are told against."""


WHOLE = ("compute_s", "exposed_comm_s", "update_s", "other_s")
"""What a step is divided into: these add up to it."""

EXPOSED = ("transfer_s", "bubble_s", "imbalance_s", "dependency_s")
"""The parts of exposed communication."""

PARTS = WHOLE + EXPOSED


class Parts(Protocol):
    """Whatever a step is divided into, as PARTS has it."""

    @property
    def compute_s(self) -> float: ...  # noqa: D102
    @property
    def exposed_comm_s(self) -> float: ...  # noqa: D102
    @property
    def update_s(self) -> float: ...  # noqa: D102
    @property
    def other_s(self) -> float: ...  # noqa: D102
    @property
    def transfer_s(self) -> float | None: ...  # noqa: D102
    @property
    def bubble_s(self) -> float | None: ...  # noqa: D102
    @property
    def imbalance_s(self) -> float | None: ...  # noqa: D102
    @property
    def dependency_s(self) -> float | None: ...  # noqa: D102


@dataclass(frozen=True)
class Spread:
    """Median and deciles of the steps, each as long as its slowest rank took, in seconds.

    ``cv``: their standard deviation over their mean.
    """

    median: float
    p10: float
    p90: float
    cv: float | None = None


@dataclass(frozen=True, kw_only=True)
class RankFigures:
    """Means over the steps of one rank, in seconds; the four parts add up to the step.

    They are NaN where nobody knows them: a timeline of very many ranks holds but some. The others
    are those of exposed communication, None where nobody told them. ``update_core_s``: what the
    update needed of a core, whoever else used it meanwhile, and ``compute_core_s`` what all else
    did, posting calls included and waiting for them not; None where nobody measured that.
    """

    rank: int
    host: str
    step_time_s: float
    compute_s: float
    exposed_comm_s: float
    update_s: float
    other_s: float
    transfer_s: float | None = None
    bubble_s: float | None = None
    imbalance_s: float | None = None
    dependency_s: float | None = None
    compute_core_s: float | None = None
    update_core_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class LinkUse:
    """How busy links are over the last step: ``utilisation`` of shape (links, bins), 1 is full.

    ``begin_s``: when the first bin begins, from the begin of the step. ``left_out``: so many
    further links carry something too.
    """

    bin_s: float
    begin_s: float
    links: Sequence[str]
    utilisation: Sequence[Sequence[float]]
    left_out: int


@dataclass(frozen=True, kw_only=True)
class CallKind:
    """What the intervals of a name on a stream are, of so many bytes: kind, group and its size."""

    name: str
    stream: str
    bytes: int
    kind: str
    group: str
    members: int


@dataclass(frozen=True, kw_only=True)
class PairBytes:
    """Bytes from rank ``src`` to rank ``dst``, all but zeros."""

    src: Sequence[int]
    dst: Sequence[int]
    bytes: Sequence[int]

    def __post_init__(self) -> None:
        if len({len(self.src), len(self.dst), len(self.bytes)}) > 1:
            raise ValueError("pairs have a source, a destination and bytes each")
        if min((*self.src, *self.dst), default=0) < 0:
            raise ValueError("pairs are of ranks from 0 on")

    @property
    def ranks(self) -> int:
        """So many ranks there are at least."""
        return 1 + max((*self.src, *self.dst), default=-1)


@dataclass(frozen=True, kw_only=True)
class AxisPlacement:
    """Where the groups along an axis are.

    ``size`` ranks a group, ``stride`` apart; at most ``in_host`` of a group share a host, and it
    spans ``hosts`` at most. ``sent_bytes``: what a rank sends along it, at most.
    """

    axis: str
    size: int
    stride: int = 1
    in_host: int
    hosts: int
    sent_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class WouldFit:
    """Options with which a step would fit on so many ``ranks``, each keeping ``total`` bytes.

    ``has_places``: whether its cluster has that many.
    """

    options: str
    ranks: int
    total: int
    has_places: bool
    source: Source = "computed"


@dataclass(frozen=True, kw_only=True)
class UnderSoftware:
    """Bytes that a rank keeps under a framework, those of the framework counted."""

    software: str
    total: int
    source: Source = "computed"


@dataclass(frozen=True, kw_only=True)
class ModelMemory:
    """Bytes that the rank that keeps the most of the model keeps, and those of its device.

    ``would_fit``: the nearest changes with which it would fit, where it does not. ``too_much``:
    what it would keep under a framework, where that alone is more than its device has.
    """

    total: int
    parameters: int = 0
    gradients: int = 0
    optimizer: int = 0
    passing: int = 0
    activations: int = 0
    device_bytes: int | None = None
    fits: bool | None = None
    would_fit: Sequence[WouldFit] = ()
    too_much: UnderSoftware | None = None
    source: Source = "computed"


@dataclass(frozen=True, kw_only=True)
class ComputeSpeed:
    """What simulated times of computing stand on.

    ``basis``: they are ``given``; or those that the ``kernels`` of a ``device`` take; or those of
    ``of_peak`` times its peak rate, ``measured`` there, ``fitted`` to measured steps, or
    ``assumed``; or those that a ``software`` makes of its kernels, as measured steps of it have it.
    """

    basis: Literal["given", "kernels", "measured", "fitted", "assumed", "software"]
    of_peak: float | None = None
    device: str | None = None
    software: str | None = None

    def __str__(self) -> str:
        if self.software is not None:
            return f"computing by kernels as {self.software} drives them, fitted to measured steps"
        if self.basis == "kernels":
            return "computing by kernels, fitted to published measurements"
        if self.of_peak is None:
            return "computing takes the times given"
        return f"computing at {100 * self.of_peak:.0f} % of peak, {self.basis}"


@dataclass(frozen=True, kw_only=True)
class Bound:
    """How far ``what`` bounds the step, as ``simulate.sensitivity`` asks."""

    what: str
    kind: str
    faster: bool
    elasticity: float
    source: Source = "simulated"


@dataclass(frozen=True, kw_only=True)
class StepFigures:
    """The answer of one strategy, with the fields that the command line's JSON promises.

    The parts divide the median step as they divide all timed steps of all ranks together, so they
    add up to it; ``transfer_s`` to ``dependency_s`` are those of exposed communication, None of a
    run that did not tell them. ``axes``: what it spends along each axis, where ranks share a model.
    ``ideal_step_s``: what the step takes on a network that costs
    nothing, where it was simulated. ``spec``: the resolved StepSpec of this strategy. A simulation
    trains nothing and has no wire: it has no losses, no hashes and no bytes on one, and no tokens
    where its program says nothing of them. ``utilisation``: of a model of tokens; ``expected``: how
    far a simulated step may be from a measured one, None where no measured step is near it.
    """

    source: Source
    spec: Mapping[str, Any] | None = None
    summary: str = field(default="", metadata=ALWAYS)
    step_time_s: Spread
    compute_s: float
    exposed_comm_s: float
    update_s: float
    other_s: float
    transfer_s: float | None = None
    bubble_s: float | None = None
    imbalance_s: float | None = None
    dependency_s: float | None = None
    bytes_sent_per_rank: Sequence[int]
    bytes_received_per_rank: Sequence[int]
    wire_bytes_sent_per_rank: Sequence[int] | None = field(default=None, metadata=ALWAYS)
    wire_bytes_received_per_rank: Sequence[int] | None = field(default=None, metadata=ALWAYS)
    bytes_sent_per_host: Mapping[str, int] = field(default_factory=dict, metadata=ALWAYS)
    bytes_received_per_host: Mapping[str, int] = field(default_factory=dict, metadata=ALWAYS)
    tokens_per_s: float | None = field(default=None, metadata=ALWAYS)
    loss: Sequence[float] = field(default=(), metadata=ALWAYS)
    parameter_hash: Sequence[str] = field(default=(), metadata=ALWAYS)
    ranks: Sequence[RankFigures]
    speed_against_server: float | None = field(default=None, metadata=ALWAYS)
    ideal_step_s: float | None = None
    fidelity: str | None = None
    messages: int | None = None
    wall_s: float | None = None
    link_use: LinkUse | None = None
    calls: Sequence[CallKind] = ()
    pairs: PairBytes | None = None
    axes: Sequence[AxisTime] = ()
    placement: Sequence[AxisPlacement] = ()
    model_memory: ModelMemory | None = None
    compute_speed: ComputeSpeed | None = None
    utilisation: Utilisation | None = None
    expected: Expected | None = None
    sensitivity: Sequence[Bound] = ()

    @property
    def fits(self) -> bool | None:
        """Whether its device has the memory; None where nobody can tell."""
        return self.model_memory.fits if self.model_memory else None

    @property
    def standing(self) -> tuple[bool, float]:
        """What strategies are ordered by: those that fit first, then the shortest median step."""
        return self.fits is False, self.step_time_s.median


def measured_steps(
    table: NDArray[np.void], ranks: Sequence[int], hosts: Sequence[str]
) -> dict[str, Any]:
    """The fields of StepFigures that follow from measured phases.

    ``table``: dtype PHASES of ``timeline.phases``, shape (ranks, steps), of the ranks in order.
    """
    duration = table["duration"].max(axis=0)  # (steps,)
    p10, median, p90 = (float(q) for q in np.percentile(duration, [10, 50, 90]))
    whole = float(table["duration"].sum())
    parts = {part: table[part.removesuffix("_s")] for part in PARTS}
    shares = {part: median * float(of.sum()) / whole for part, of in parts.items()}
    of_ranks = [
        RankFigures(
            rank=rank,
            host=host,
            step_time_s=float(rows["duration"].mean()),
            **{part: float(of[place].mean()) for part, of in parts.items()},
        )
        for place, (rank, host, rows) in enumerate(zip(ranks, hosts, table, strict=True))
    ]
    return {"step_time_s": Spread(median, p10, p90), **shares, "ranks": of_ranks}


def fastest(strategies: Mapping[str, StepFigures]) -> str:
    """The strategy with the shortest median step, of those that fit if any does."""
    return min(strategies, key=lambda name: strategies[name].standing)


def with_speeds(strategies: Mapping[str, StepFigures]) -> dict[str, StepFigures]:
    """The same figures, with how many steps of each fit into one of the server strategy."""
    if SLOWEST not in strategies:
        return dict(strategies)
    slowest = strategies[SLOWEST].step_time_s.median
    return {
        name: replace(figures, speed_against_server=slowest / figures.step_time_s.median)
        for name, figures in strategies.items()
    }


def sum_by(hosts: Sequence[str], values: Sequence[int]) -> dict[str, int]:
    """What the ranks of each host have together."""
    sums = dict.fromkeys(hosts, 0)
    for host, value in zip(hosts, values, strict=True):
        sums[host] += value
    return sums


_RATES = ("mfu", "tflops_per_device", "tokens_per_s_per_device")


def promised(raw: dict[str, Any]) -> dict[str, Any]:
    """The JSON of a step with what stands beside its time: whether it fits, and its utilisation.

    A simulated step of a model of tokens says its expected error too, null where nobody knows it.
    """
    found: dict[str, Any] = {}
    if (fits := (raw.get("model_memory") or {}).get("fits")) is not None:
        found["fits"] = fits
    if rates := raw.get("utilisation"):
        found |= {name: rates.get(name) for name in _RATES}
        if raw.get("source") == "simulated":
            found["expected_error"] = (raw.get("expected") or {}).get("error")
    return {**raw, **found}
