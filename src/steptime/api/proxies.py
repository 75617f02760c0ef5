"""``steptime.proxy``: a model's traffic on live ranks, with something in place of its computing."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal, Unpack

from steptime.api.results import Run
from steptime.api.running import answer_of_ranks
from steptime.replay.backends import check_here, transport_of
from steptime.replay.figures import Replayed
from steptime.replay.live import check_right, measured_record, replay_proxy
from steptime.replay.options import ComputeChoice, ProxyOptions
from steptime.replay.workload import Proxy, proxy_of
from steptime.runs.proxy_record import ProxyStep
from steptime.runs.record import Place, run_of_proxy
from steptime.study.options import FidelityName, HowOptions
from steptime.study.programs import proxy_programs
from steptime.workloads.spec import StepOptions, StepSpec, spec_of

RANKS = 4
"""Ranks where nothing is said."""


def proxy(
    model: str | Path,
    *,
    backend: Literal["gloo", "nccl", "steptime"] = "gloo",
    threads: int = 1,
    cluster: str | Path | None = None,
    fidelity: FidelityName = "auto",
    compute: ComputeChoice = "auto",
    device_flops: str | None = None,
    device_memory: str | None = None,
    compute_time: str | None = None,
    times: str | Path | None = None,
    scale_bytes: str = "1",
    steps: int = 10,
    warmup: int = 2,
    verify: bool = False,
    seed: int = 0,
    timeout: float | str = "5min",
    **step: Unpack[StepOptions],
) -> Run:
    """Send on live ranks what a training step sends, with something in place of its computing.

    ``model``: its name or file; ``step``: how ranks share it and how it is trained, as
    ``st.simulate`` takes it, by default on 4 ``ranks``. Computing is slept through, or with
    ``compute="busy"`` stood in for by products of matrices: as long as it takes the device of a
    ``cluster``, one of ``device_flops`` as ``"312TFLOP/s"`` and ``device_memory`` as ``"2TB/s"``,
    as a CSV file of ``times`` says (name,seconds), or ``compute_time`` in all, as ``"100ms"``;
    where nothing tells, it is left out. With a ``cluster`` the same step is simulated there too.
    ``scale_bytes`` shrinks every message, as ``"1/16"``. ``verify``: every value received is
    checked.

    Figures are measured; ``record.proxy`` has bytes and calls of each rank. Raises what ``st.run``
    raises; UsageError where the step or its memory cannot be; SteptimeError where values are wrong.

    >>> run = st.proxy("gpt2-nano", ranks=2, steps=3, compute_time="10ms", verify=True)
    >>> run.figures.source, run.step_s > 0.005
    ('measured', True)
    >>> run.record.proxy.step.verified.wrong
    0
    """
    asked = ProxyOptions(
        cluster=None if cluster is None else str(cluster),
        live=cluster is not None,
        fidelity=fidelity,
        compute=compute,
        device_flops=device_flops,
        device_memory=device_memory,
        compute_time=compute_time,
        times=None if times is None else Path(times),
        scale_bytes=scale_bytes,
        steps=steps,
        warmup=warmup,
        verify=verify,
        seed=seed,
    )
    ranks = step.get("ranks") or RANKS
    spec = replace(spec_of(step), model=str(model), ranks=ranks)
    _check(proxy_of(spec, asked), asked, backend, ranks)
    work = partial(_proxied, spec, asked, backend, threads)
    return answer_of_ranks(work, ranks=ranks, backend=backend, threads=threads, timeout=timeout)


def _check(plan: Proxy, asked: ProxyOptions, backend: str, ranks: int) -> None:
    check_here(plan, backend, ranks)
    if plan.cluster:
        from steptime.study.simulated_proxy import check_simulated  # which loads the simulator

        check_simulated(plan, HowOptions(fidelity=asked.fidelity))


def measured(
    plan: Proxy,
    replayed: Replayed,
    asked: ProxyOptions,
    place: Place,
    library: str,
    there: ProxyStep | None,
) -> Run:
    """What live ranks did as a run; ``there`` is the same step simulated on the cluster."""
    record = replace(measured_record(plan, replayed, asked, place, library), simulated=there)
    return Run(run_of_proxy(record), replayed.timeline, proxy_programs(plan))


def simulated(plan: Proxy, asked: ProxyOptions) -> Run:
    """The step simulated alone on the cluster of the plan; UsageError where it cannot be."""
    from steptime.study.simulated_proxy import simulate_proxy, simulated_record

    one = simulate_proxy(plan, HowOptions(fidelity=asked.fidelity))
    record = simulated_record(plan, one)
    return Run(run_of_proxy(record), one.simulation.timeline, proxy_programs(plan))


def _proxied(spec: StepSpec, asked: ProxyOptions, backend: str, threads: int) -> Run | None:
    """What a rank that ``proxy`` started does; the answer on rank 0."""
    plan = proxy_of(spec, asked)
    transport = transport_of(backend)
    replayed = replay_proxy(plan, transport, asked, backend)
    check_right(replayed, backend)
    if transport.world.rank:
        return None
    place = Place(
        world_size=plan.program.ranks, threads=threads, backend=backend, launcher="steptime"
    )
    there = None
    if plan.cluster:
        from steptime.study.simulated_proxy import simulate_live_proxy

        there = simulate_live_proxy(plan, HowOptions(fidelity=asked.fidelity)).step
    return measured(plan, replayed, asked, place, transport.world.library, there)
