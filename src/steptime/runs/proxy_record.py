"""The record of a proxy: the plan of its step, all computed, and what came of running it.

Version 1 has the same fields but the specification.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from steptime.runs.codec import decoded, plain
from steptime.runs.environment import ALWAYS, Environment
from steptime.runs.expected import Expected
from steptime.runs.figures import (
    AxisPlacement,
    CallKind,
    ModelMemory,
    PairBytes,
    Spread,
    promised,
)
from steptime.runs.utilisation import Utilisation
from steptime.timeline import Clock, Source


@dataclass(frozen=True)
class Calls:
    """How many calls of one kind a step has, and the sum of their counts."""

    calls: int = 0
    elements: int = 0

    def plus(self, count: int) -> "Calls":
        """These and one call more."""
        return Calls(self.calls + 1, self.elements + count)


@dataclass(frozen=True, kw_only=True)
class GroupCalls:
    """The calls of a collective among the ``group_size`` ranks along an axis, or several joined."""

    kind: str
    axis: str
    group_size: int
    calls: int
    elements: int


@dataclass(frozen=True)
class Moved:
    """Bytes that a rank sends and receives in a step."""

    sent: int
    received: int


@dataclass(frozen=True, kw_only=True)
class RankPlan:
    """What a step asks of a rank, and what it made it move.

    ``memory_bytes`` of its buffers. ``predicted_bytes``: by axes, as the definitions of its calls
    make it move them; ``wire_bytes`` were counted on TCP, and ``simulated_bytes`` are those of the
    algorithms that a simulation chose.
    """

    rank: int
    coords: Mapping[str, int] = field(metadata=ALWAYS)
    sends: Calls = Calls()
    receives: Calls = Calls()
    collectives: Sequence[GroupCalls] = field(default=(), metadata=ALWAYS)
    compute_s: float = 0.0
    memory_bytes: int = 0
    predicted_bytes: Mapping[str, Moved] = field(metadata=ALWAYS)
    wire_bytes: Moved | None = None
    simulated_bytes: Moved | None = None

    @property
    def predicted(self) -> Moved:
        """What is predicted of all axes together."""
        of = self.predicted_bytes.values()
        return Moved(sum(one.sent for one in of), sum(one.received for one in of))


@dataclass(frozen=True, kw_only=True)
class ProxyPlan:
    """What a proxy is to run; all of it is computed.

    ``spec``: the resolved StepSpec, field by field. ``program``: what its steps are called in its
    timeline. ``scale_bytes``: the part of their bytes that its messages have. ``model_memory``:
    what the rank that keeps most of the model does, None of an original, which has none.
    ``compute``: what stands in for computing, and in words where its ``times`` come from.
    ``defects``: what is known to be wrong with the original that it follows.
    """

    model: str
    spec: Mapping[str, Any] | None = None
    defects: Sequence[str] = ()
    program: str
    axes: Mapping[str, int] = field(default_factory=dict)
    scale_bytes: str | None = None
    compute: Mapping[str, str]
    placement: Sequence[AxisPlacement] = field(default=(), metadata=ALWAYS)
    model_memory: ModelMemory | None = field(default=None, metadata=ALWAYS)
    per_rank: Sequence[RankPlan]
    calls: Sequence[CallKind] = field(default=(), metadata=ALWAYS)
    pairs: PairBytes | None = None

    def with_bytes(self, name: str, moved: Sequence[Sequence[float]]) -> "ProxyPlan":
        """The same with what each rank sent and received, as a field of RankPlan by its name."""
        rows: list[RankPlan] = []
        for of, each in zip(self.per_rank, moved, strict=True):
            found: Any = {name: Moved(*map(round, each))}
            rows.append(replace(of, **found))
        return replace(self, per_rank=rows)


@dataclass(frozen=True, kw_only=True)
class PhaseTime:
    """Seconds of a step: mean of the ranks, and the most of any."""

    mean_s: float
    max_s: float = 0.0


@dataclass(frozen=True)
class Verified:
    """Elements received that were checked, and how many of them are wrong."""

    checked: int
    wrong: int


@dataclass(frozen=True, kw_only=True)
class ProxyStep:
    """The steps of a proxy, measured or simulated; each takes as long as on its slowest rank.

    ``rank_step_s``: the mean of each rank. ``phases``: what the main stream did, of which waiting
    has the names of axes; ``under_way``: the seconds of the calls by axes. Of a simulation both are
    made of ``divided_ranks`` ranks; of live ones ``rss_bytes`` are what each process held.
    ``transfer_s`` to ``dependency_s``: the parts of all waiting for axes, as in StepFigures.
    """

    source: Source
    cluster: str | None = None
    cluster_title: str | None = None
    cluster_source: str | None = None
    fidelity: str | None = None
    step_time_s: Spread
    steps_s: Sequence[float] = ()
    rank_step_s: Sequence[float] = ()
    rss_bytes: Sequence[int] = ()
    phases: Mapping[str, PhaseTime] = field(default_factory=dict, metadata=ALWAYS)
    under_way: Mapping[str, float] = field(default_factory=dict, metadata=ALWAYS)
    verified: Verified | None = None
    clock: Sequence[Clock] = ()
    divided_ranks: int | None = None
    transfer_s: float | None = None
    bubble_s: float | None = None
    imbalance_s: float | None = None
    dependency_s: float | None = None
    messages: int | None = None
    wall_s: float | None = None
    utilisation: Utilisation | None = None
    expected: Expected | None = None

    def name_of(self, phase: str) -> str:
        """A phase in words."""
        return f"waiting for {phase or 'nothing'}" if phase in self.under_way else phase


@dataclass(frozen=True, kw_only=True)
class ProxyRecord:
    """A proxy that ran live or was simulated, or its plan alone, which has no ``step``.

    ``library`` is what carried its messages. ``simulated``: the same on a cluster, beside the live
    step.
    """

    verb: str = "proxy"
    run: str | None = None
    backend: str | None = None
    threads: int | None = None
    launcher: str | None = None
    library: str | None = None
    plan: ProxyPlan
    step: ProxyStep | None = None
    steps: int | None = None
    warmup: int | None = None
    simulated: ProxyStep | None = None
    environment: Environment


def proxy_json(record: ProxyRecord) -> dict[str, Any]:
    """The content of its run.json: the plan and the step are no groups there, as docs/cli has it.

    ``source`` is that of the step, and a plan that nobody ran has ``step_time_s`` null.
    """
    raw: dict[str, Any] = plain(record)
    plan, step = raw.pop("plan"), raw.pop("step", None)
    if step is None:
        planned = {**raw, "source": "computed", "dry_run": True, **plan, "step_time_s": None}
        return promised(planned)
    if record.step and record.simulated:
        raw["error"] = _error(record.step, record.simulated)
    return promised({**raw, "ranks": len(record.plan.per_rank), **plan, **step})


def _error(live: ProxyStep, there: ProxyStep) -> dict[str, Any]:
    """How far simulated times are from measured ones: of the step, and of its phases' means."""
    phases = [what for what in live.phases if what in there.phases]
    return {
        "source": "computed",
        "step_time": error_of(live.step_time_s.median, there.step_time_s.median),
        "phases": {
            what: error_of(live.phases[what].mean_s, there.phases[what].mean_s) for what in phases
        },
    }


def error_of(measured_s: float, simulated_s: float) -> float | None:
    """How far a simulated time is from a measured one, as a part of it; above 0: too long.

    None where the measured one is 0.
    """
    return simulated_s / measured_s - 1 if measured_s else None


def proxy_record(raw: Mapping[str, Any], name: str = "") -> ProxyRecord:
    """What JSON says of the proxy ``name``, checked; raises UsageError where it is not whole."""
    groups: dict[str, Any] = {"plan": decoded(raw, ProxyPlan, name)}
    if raw.get("step_time_s") is not None:
        groups["step"] = decoded(raw, ProxyStep, name)
    return decoded({**raw, **groups}, ProxyRecord, name)
