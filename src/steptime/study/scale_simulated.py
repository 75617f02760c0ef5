"""The cells of a scaling study on a cluster that nobody need have: all of each is simulated."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from steptime.cluster import Cluster
from steptime.errors import UsageError
from steptime.runs.scale import StepTimes, exposed_time
from steptime.study.cases import Asked, asked_of_model
from steptime.study.compute_speed import compute_speed
from steptime.study.options import HowOptions
from steptime.study.scale import Steps
from steptime.study.scale_options import BATCH, Grid, Point
from steptime.timeline import packed_chrome_trace
from steptime.workloads.spec import StepSpec


@dataclass(frozen=True)
class Simulated:
    """What a point comes to: the steps of all strategies, and their trace.json.gz, in turn."""

    steps: list[Steps]
    trace: bytes


def batch_of(spec: StepSpec, grid: Grid) -> int | None:
    """Rows of the batch, in weak scaling of each rank's.

    None where nothing says how many, and each point takes as many as its ranks do by default.
    """
    own = grid.kind == "weak" and (spec.asks_to_share or spec.rows)
    return spec.batch or (None if own else BATCH)


def asked_at(point: Point, grid: Grid, spec: StepSpec, cluster: Cluster) -> Asked:
    """The steps of all strategies at a point, before any is simulated.

    ``spec``: the step at every point, its batch as the user gave it.

    Raises UsageError where the ranks or the batch do not fit the cluster or the model, or a
    strategy cannot run there.
    """
    if point.threads > 1:
        raise UsageError(
            f"--threads has {point.threads}, and the devices of a cluster have no threads: leave "
            "it out with --cluster"
        )
    batch = batch_of(spec, grid)
    there = replace(
        spec,
        ranks=point.ranks,
        strategy=",".join(grid.strategies_at(point)),
        batch=batch and grid.batch_at(point, batch),
    )
    return asked_of_model(there, cluster, {})


def how_at_all(grid: Grid) -> HowOptions:
    """How all points are simulated: as the largest is, so that a curve is of one model."""
    return HowOptions(fidelity=HowOptions().fidelity_of(max(one.ranks for one in grid.points)))


def identity_of(asked: Asked, how: HowOptions) -> object:
    """All that decides what comes of steps; another strategy of the user's is another program."""
    return asked.cluster, asked.cases, asked.facts_of, asked.tokens, how


def simulate_at(
    point: Point,
    *,
    grid: Grid,
    spec: StepSpec,
    cluster: Cluster,
    on_case: Callable[[], None] = lambda: None,
) -> Simulated:
    """The steps of all strategies at a point, with their trace.

    ``on_case`` hears of each that is done, on the cluster and on the ideal network. Raises
    UsageError as ``asked_at`` does, and where a step cannot be simulated.
    """
    # They load the simulator, which live ranks do not need.
    from steptime.study.scale_ideal import on_ideal_network, usage_of_simulation
    from steptime.study.simulate import prepare_all, study

    asked, how = asked_at(point, grid, spec, cluster), how_at_all(grid)
    real, ideal = (
        study(asked, there, how, prepare_all(asked, there, how), lambda _: on_case())
        for there in (cluster, on_ideal_network(cluster))
    )
    steps = []
    for case in asked.cases:
        simulation = real.simulations[case.name]
        usage = usage_of_simulation(simulation)
        step_s = usage.run_time_s
        used, expected = asked.figures_of(case.name, step_s)
        steps.append(
            Steps(
                point=point,
                strategy=case.name,
                source="simulated",
                times=StepTimes(mean=step_s, median=step_s, p10=step_s, p90=step_s),
                usage=usage,
                ideal=usage_of_simulation(ideal.simulations[case.name]),
                other_s=float(simulation.ranks["other_s"].mean()),
                exposed=exposed_time(simulation.ranks, "_s"),
                tokens=asked.tokens,
                folder=f"cells/{point}",
                memory=asked.facts_of[case.name]["model_memory"],
                speed=compute_speed(case.program, asked.cluster, asked.software_of(case.name)),
                used=used,
                expected=expected,
            )
        )
    return Simulated(steps, packed_chrome_trace(real.comparison.timeline))
