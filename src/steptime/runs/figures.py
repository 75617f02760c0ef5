"""What came out of a step, measured or simulated: the figures of one strategy, with their source.

Seconds and bytes are those of one step unless a name says otherwise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from steptime.runs.environment import ALWAYS
from steptime.timeline import Source

SLOWEST = "server"
"""The strategy that the speeds of the others are told against."""


class Parts(Protocol):
    """Whatever a step is divided into: the four parts add up to it."""

    @property
    def compute_s(self) -> float: ...  # noqa: D102
    @property
    def exposed_comm_s(self) -> float: ...  # noqa: D102
    @property
    def update_s(self) -> float: ...  # noqa: D102
    @property
    def other_s(self) -> float: ...  # noqa: D102


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

    They are NaN where nobody knows them: a timeline of very many ranks holds but some.
    """

    rank: int
    host: str
    step_time_s: float
    compute_s: float
    exposed_comm_s: float
    update_s: float
    other_s: float


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
class ModelMemory:
    """Bytes that the rank that keeps the most of the model keeps, and those of its device."""

    total: int
    parameters: int = 0
    gradients: int = 0
    optimizer: int = 0
    passing: int = 0
    activations: int = 0
    device_bytes: int | None = None
    fits: bool | None = None
    source: Source = "computed"


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
    add up to it. ``spec``: the resolved StepSpec of this strategy. A simulation trains nothing
    and has no wire: it has no losses, no hashes and no bytes on one, and no tokens where its
    program says nothing of them.
    """

    source: Source
    spec: Mapping[str, Any] | None = None
    summary: str = field(default="", metadata=ALWAYS)
    step_time_s: Spread
    compute_s: float
    exposed_comm_s: float
    update_s: float
    other_s: float
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
    fidelity: str | None = None
    messages: int | None = None
    wall_s: float | None = None
    link_use: LinkUse | None = None
    calls: Sequence[CallKind] = ()
    pairs: PairBytes | None = None
    placement: Sequence[AxisPlacement] = ()
    model_memory: ModelMemory | None = None
    sensitivity: Sequence[Bound] = ()


def fastest(strategies: Mapping[str, StepFigures]) -> str:
    """The strategy with the shortest median step."""
    return min(strategies, key=lambda name: strategies[name].step_time_s.median)


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
