"""A proxy on live ranks: every rank replays it, and the record is made of what all measured."""

import numpy as np

from steptime.errors import SteptimeError
from steptime.replay.backends import stand_in
from steptime.replay.figures import Replayed, gathered
from steptime.replay.options import ProxyOptions
from steptime.replay.replay import replay
from steptime.replay.transport import ReplayTransport
from steptime.replay.workload import Proxy, plan_of
from steptime.runs.environment import here
from steptime.runs.figures import Spread
from steptime.runs.proxy_record import (
    PhaseTime,
    ProxyRecord,
    ProxyStep,
    Verified,
)
from steptime.runs.record import Place


def replay_proxy(
    proxy: Proxy, transport: ReplayTransport, options: ProxyOptions, backend: str
) -> Replayed:
    """Replay its steps and tell every rank what all measured; each rank calls it."""
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
    return gathered(transport.world, own, proxy.program)


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
        step=measured_step(run),
        steps=options.steps,
        warmup=options.warmup,
        environment=here(own=place.world_size * (place.threads or 1)),
    )


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
