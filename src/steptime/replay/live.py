"""A proxy on live ranks: every rank replays it, and the record is made of what all measured."""

from dataclasses import replace

import numpy as np

from steptime.errors import SteptimeError
from steptime.replay.backends import stand_in
from steptime.replay.figures import Replayed, gathered
from steptime.replay.options import ProxyOptions
from steptime.replay.replay import replay
from steptime.replay.times import with_seconds
from steptime.replay.transport import ReplayTransport
from steptime.replay.workload import Proxy, plan_of
from steptime.runs.environment import here
from steptime.runs.figures import EXPOSED, Spread
from steptime.runs.proxy_record import (
    PhaseTime,
    ProxyRecord,
    ProxyStep,
    Verified,
)
from steptime.runs.proxy_step import with_exposed
from steptime.runs.record import Place
from steptime.simulate.bubble import bubble_of
from steptime.timeline import Timeline, phases_of_steps


def replay_proxy(
    proxy: Proxy, transport: ReplayTransport, options: ProxyOptions, backend: str
) -> Replayed:
    """Replay its steps and tell every rank what all measured; each rank calls it.

    Rank 0 alone is told the bubble of its schedule.
    """
    own = replay(
        proxy.program,
        transport,
        steps=options.steps,
        warmup=options.warmup,
        compute=stand_in(proxy.compute, backend),
        device=proxy.device,
        verify=options.verify,
        seed=options.seed,
        messages=proxy.messages,
    )
    run = gathered(transport.world, own, proxy.program)
    if transport.world.rank:
        return run
    return replace(run, timeline=replace(run.timeline, bubble=_bubble(proxy)))


def _bubble(proxy: Proxy) -> float:
    """The bubble of its pipeline's own schedule, with what stands in for computing."""
    return bubble_of(with_seconds(proxy.program, proxy.seconds_of))


def check_right(run: Replayed, backend: str) -> None:
    """Raise SteptimeError where a rank has received anything else than it should."""
    if run.wrong:
        raise SteptimeError(
            f"{run.wrong:,} of {run.checked:,} elements that were received are wrong: "
            f"{backend} has moved something else"
        )


def measured_record(
    proxy: Proxy, run: Replayed, options: ProxyOptions, place: Place, library: str
) -> ProxyRecord:
    """The record of a replay; ``place`` is where the ranks were, ``library`` what they used."""
    plan = plan_of(proxy)
    if run.wire is not None:
        plan = plan.with_bytes("wire_bytes", run.wire.tolist())
    return ProxyRecord(
        backend=place.backend,
        threads=place.threads,
        launcher=place.launcher,
        library=library,
        plan=plan,
        step=with_exposed(measured_step(run), _exposed(run.timeline, plan.program)),
        steps=options.steps,
        warmup=options.warmup,
        environment=here(own=place.world_size * (place.threads or 1)),
    )


def _exposed(timeline: Timeline, name: str) -> dict[str, float]:
    """The parts of exposed communication in the steps that the timeline holds, by field."""
    phases = phases_of_steps(timeline, name)
    return {part: float(phases[part.removesuffix("_s")].sum()) for part in EXPOSED}


def measured_step(run: Replayed) -> ProxyStep:
    """The steps for a record: one takes as long as on its slowest rank."""
    step_s = run.step_s.max(axis=0)
    busy = sum(run.spent.values(), np.zeros_like(run.step_s))
    spent = {**run.spent, "other": np.maximum(run.step_s - busy, 0.0)}
    return ProxyStep(
        source="measured",
        step_time_s=Spread(
            median=float(np.median(step_s)),
            p10=float(np.percentile(step_s, 10)),
            p90=float(np.percentile(step_s, 90)),
            cv=float(step_s.std() / step_s.mean()) if step_s.mean() else 0.0,
        ),
        steps_s=step_s.tolist(),
        rank_step_s=run.step_s.mean(axis=1).tolist(),
        rss_bytes=run.resident,
        phases={
            what: PhaseTime(mean_s=float(of.mean()), max_s=float(of.mean(axis=1).max()))
            for what, of in spent.items()
        },
        under_way={what: float(of.mean()) for what, of in run.under_way.items()},
        verified=Verified(run.checked, run.wrong),
        clock=run.timeline.clocks,
    )
