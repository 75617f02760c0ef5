"""The record of a run whose steps were timed or simulated: what ran, on what, what came out.

Everything that looks at such a run afterwards (page, terminal, diff, history, export) reads a
``RunRecord`` and its Timeline, and nothing else. There is one writer, ``to_json``, and one reader,
``run_record``; what run.json holds is flat, and each group of fields here is a part of it.

The types are frozen dataclasses, as everywhere; msgspec decodes them. A decoder of our own would
be a hundred lines to check nested types, unions and literals, and msgspec, which depends on
nothing, does it in C and tells the path of what is wrong. Unknown fields are let pass, so a record
may grow.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from steptime.runs.codec import decoded, plain
from steptime.runs.environment import ALWAYS, Environment
from steptime.runs.figures import PARTS, RankFigures, StepFigures, fastest, promised
from steptime.runs.host_links import HostLink
from steptime.runs.proxy_record import ProxyRecord, ProxyStep, proxy_json, proxy_record
from steptime.runs.proxy_step import figures_of
from steptime.runs.recorded import RecordedScript
from steptime.runs.turns import Ratio, Turns
from steptime.timeline import Clock, Source

TOLD: Mapping[str, Any] = {"told": True}
"""Metadata of what two runs that are compared may differ in, and are told to."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """What ran.

    ``spec``: the resolved StepSpec, field by field, None in a record of version 1. The others say
    it for people, and for other tools, and in a record of version 1 alone. Of a proxy, ``program``
    is what its steps are called in its timeline, ``scale_bytes`` the part of their bytes that its
    messages have, and ``compute`` what stands in for computing.
    """

    model: str
    spec: Mapping[str, Any] | None = None
    model_config: Mapping[str, int] | None = field(default=None, metadata=ALWAYS)
    precision: str | None = field(default=None, metadata=ALWAYS)
    reduce_dtype: str | None = None
    rounding: str | None = None
    batch: int | None = None
    micro_batches: int | None = None
    accumulate: int | None = None
    axes: Mapping[str, int] = field(default_factory=dict)
    scale_bytes: str | None = None
    program: str | None = None
    compute: Mapping[str, str] | None = None
    preset: str | None = None
    preset_source: str | None = None
    compiled: bool | None = field(default=None, metadata=TOLD)
    seed: int | None = field(default=None, metadata=TOLD)
    data: str | None = field(default=None, metadata=TOLD)


@dataclass(frozen=True, kw_only=True)
class Place:
    """On what it ran: so many ranks here, with their threads, or on a cluster that it names."""

    world_size: int
    threads: int | None = None
    backend: str | None = None
    launcher: str | None = None
    cluster: str | None = None
    cluster_title: str | None = None
    cluster_source: str | None = None

    def __post_init__(self) -> None:
        if self.world_size < 1:
            raise ValueError(f"{self.world_size} ranks have no run")


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How the steps were timed or simulated.

    ``steps`` in all, of which ``warmup`` are not timed; of a simulation ``simulated_steps``, the
    last of which counts, in ``wall_s`` seconds, with so many ``messages``; ``library``: the one
    whose closed forms price its collectives.
    """

    steps: int | None = None
    warmup: int | None = None
    fidelity: str | None = None
    library: str | None = None
    simulated_steps: int | None = None
    messages: int | None = None
    wall_s: float | None = None


@dataclass(frozen=True, kw_only=True)
class LinkLoad:
    """What a link carries in a step, and which part of its bandwidth that is."""

    name: str
    bytes: int
    utilisation: float


@dataclass(frozen=True, kw_only=True)
class Elsewhere:
    """The same steps once more: on a cluster, or, with ``changes``, on a changed one."""

    source: Source = "simulated"
    changes: str | None = None
    cluster: str = ""
    cluster_title: str | None = None
    fidelity: str | None = None
    winner: str | None = None
    strategies: Mapping[str, StepFigures] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PublishedRow:
    """A published time beside the simulated one, and ``how`` that came to agree."""

    label: str
    strategy: str = ""
    published_s: float
    simulated_s: float
    how: str


@dataclass(frozen=True, kw_only=True)
class Published:
    """The published figures of a preset, and where they stand."""

    source: str
    rows: Sequence[PublishedRow]


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """A run whose steps were timed or simulated.

    ``strategies``: the figures of each, by name; a proxy has one, by the name of its model.
    ``winner``: the fastest of several, None where it cannot be told from those it is
    ``level_with``; ``ratios``: of each strategy's step to the best one's, and ``turns`` what they
    are of, where the strategies took turns. ``proxy``: the record of a proxy itself, of which all
    else here is made. ``script``: what a recorded script called. ``host_links``: what ranks sent
    from host to host over TCP.
    """

    verb: str
    run: str = ""
    work: Work
    place: Place
    timing: Timing = Timing()
    strategies: Mapping[str, StepFigures]
    winner: str | None = field(default=None, metadata=ALWAYS)
    level_with: Sequence[str] = field(default=(), metadata=ALWAYS)
    ratios: Mapping[str, Ratio] = field(default_factory=dict)
    turns: Turns | None = None
    val_loss: float | None = None
    validation: Sequence[Mapping[str, Any]] = ()
    goodput: Mapping[str, Any] | None = None
    links: Sequence[LinkLoad] = ()
    host_links: Sequence[HostLink] = ()
    what_if: Elsewhere | None = None
    simulated: Elsewhere | None = None
    published: Published | None = None
    proxy: ProxyRecord | None = None
    script: RecordedScript | None = None
    clock: Sequence[Clock] = ()
    environment: Environment

    def __post_init__(self) -> None:
        ranks = self.place.world_size
        for name, figures in self.strategies.items():
            if figures.pairs and figures.pairs.ranks > ranks:
                raise ValueError(f"{name} has pairs of {figures.pairs.ranks} ranks of {ranks}")

    @property
    def proxy_step(self) -> ProxyStep | None:
        """What came of the steps of a proxy, by axes; None of another run."""
        return self.proxy.step if self.proxy else None

    @property
    def fastest(self) -> str:
        """The strategy that won, or seems to be the best where none did."""
        ratios = self.ratios
        best = min(ratios, key=lambda name: ratios[name].against_best, default=None)
        return self.winner or best or fastest(self.strategies)

    @property
    def best(self) -> StepFigures:
        """Its figures."""
        return self.strategies[self.fastest]

    def step_name(self, strategy: str) -> str:
        """What the steps of a strategy are called in the timeline."""
        return self.work.program or strategy


def took_steps(record: Mapping[str, Any]) -> bool:
    """Whether the run behind some JSON timed or simulated steps, or is of another kind."""
    return bool(record.get("strategies")) or bool(
        record.get("step_time_s") and (record.get("phases") or record.get("steps_s"))
    )


def run_record(record: Mapping[str, Any], name: str = "") -> RunRecord:
    """What JSON says of the run ``name``, checked, of this version or the one before.

    Raises UsageError where a field is missing or of another type; ask ``took_steps`` first.
    """
    if record["verb"] == "proxy":
        return run_of_proxy(proxy_record(record, name))
    raw = dict(record)
    raw["world_size"] = raw.get("world_size", raw.get("ranks"))
    raw |= {
        "work": decoded(raw, Work, name),
        "place": decoded(raw, Place, name),
        "timing": decoded(raw, Timing, name),
    }
    return decoded(raw, RunRecord, name)


def run_of_proxy(record: ProxyRecord) -> RunRecord:
    """A proxy as a run of one strategy, which has the name of its model.

    How the steps of each rank divide only the timeline tells, as ``with_ranks`` does.
    """
    plan, step = record.plan, record.step
    assert step is not None  # noqa: S101  (``took_steps``: a plan that nobody ran is no run)
    about = record.environment
    host = about.host if step.source == "measured" else ""
    return RunRecord(
        verb="proxy",
        run=record.run or "",
        work=Work(
            model=plan.model,
            spec=plan.spec,
            axes=plan.axes,
            scale_bytes=plan.scale_bytes,
            program=plan.program,
            compute=plan.compute,
        ),
        place=Place(
            world_size=len(plan.per_rank),
            threads=record.threads,
            backend=record.backend,
            launcher=record.launcher,
            cluster=step.cluster,
            cluster_title=step.cluster_title,
            cluster_source=step.cluster_source,
        ),
        timing=Timing(
            steps=record.steps,
            warmup=record.warmup,
            fidelity=step.fidelity,
            messages=step.messages,
            wall_s=step.wall_s,
        ),
        strategies={plan.model: figures_of(plan, step, host)},
        simulated=_there(record, record.simulated) if record.simulated else None,
        proxy=record,
        clock=step.clock,
        environment=about,
    )


def _there(record: ProxyRecord, step: ProxyStep) -> Elsewhere:
    """The step of a proxy that was simulated beside the live one."""
    return Elsewhere(
        cluster=step.cluster or "",
        cluster_title=step.cluster_title,
        fidelity=step.fidelity,
        strategies={record.plan.model: figures_of(record.plan, step)},
    )


def to_json(record: RunRecord) -> dict[str, Any]:
    """The content of run.json, as docs/cli and the readers of other programs know it."""
    if record.proxy is not None:
        return proxy_json(replace(record.proxy, run=record.run))
    raw: dict[str, Any] = plain(record)
    for group in ("work", "place", "timing"):
        raw |= raw.pop(group)
    for several in (raw, raw.get("what_if", {}), raw.get("simulated", {})):
        strategies = several.get("strategies", {})
        strategies |= {name: promised(one) for name, one in strategies.items()}
    if record.verb == "simulate":
        raw |= _simulated(record)
    elif record.script is not None:
        raw |= _recorded(record, record.script)
    else:
        raw["ranks"] = record.place.world_size
    return raw


def _simulated(record: RunRecord) -> dict[str, Any]:
    """What a simulation says at the top: the figures of the fastest case, rank by rank."""
    best = record.best
    memory = plain(best.model_memory) if best.model_memory else None
    found = {
        "source": best.source,
        "step_time_s": best.step_time_s.median,
        "ranks": _rank_rows(best.ranks),
        **({"placement": plain(best.placement)} if best.model_memory else {}),
        **({"model_memory": memory} if memory else {}),
        **({"utilisation": plain(best.utilisation)} if best.utilisation else {}),
        **({"expected": plain(best.expected)} if best.expected else {}),
    }
    return promised(found)


def _recorded(record: RunRecord, script: RecordedScript) -> dict[str, Any]:
    """What a recorded script says at the top."""
    best = record.best
    return {
        "ranks": record.place.world_size,
        "command": list(script.command),
        "step_time_s": plain(best.step_time_s),
        "compute_s": best.compute_s,
        "exposed_comm_s": best.exposed_comm_s,
        "update_s": best.update_s,
        "other_s": best.other_s,
        "calls": plain(script.calls),
    }


def _rank_rows(ranks: Sequence[RankFigures]) -> list[dict[str, float]]:
    """Of every rank what it does in a step; idle is what is left of the longest rank's."""
    longest = max(rank.step_time_s for rank in ranks)
    return [
        {
            "rank": rank.rank,
            **{part: getattr(rank, part) for part in PARTS},
            "idle_s": max(0.0, longest - rank.compute_s - rank.exposed_comm_s - rank.update_s),
        }
        for rank in ranks
    ]
