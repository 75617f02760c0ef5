"""The cells of a scaling study on a cluster that nobody need have: all of each is simulated."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from steptime.cluster import Cluster
from steptime.errors import UsageError
from steptime.runs.scale import StepTimes
from steptime.simulate.prepare import Prepared
from steptime.study.cases import Asked, asked_of_model
from steptime.study.options import HowOptions
from steptime.study.scale import Steps
from steptime.study.scale_ideal import on_ideal_network, usage_of_simulation
from steptime.study.scale_options import BATCH, Grid, Point
from steptime.study.simulate import prepare_all, study
from steptime.timeline import Timeline
from steptime.workloads.spec import StepSpec


@dataclass(frozen=True, eq=False, kw_only=True)
class Ready:
    """A point of the grid that can be simulated, on the cluster and on the ideal network."""

    point: Point
    asked: Asked
    ideal: Cluster
    prepared: Mapping[str, Prepared]


def batch_of(spec: StepSpec, grid: Grid) -> int | None:
    """Rows of the batch, in weak scaling of each rank's.

    None where nothing says how many, and each point takes as many as its ranks do by default.
    """
    own = grid.kind == "weak" and (spec.asks_to_share or spec.rows)
    return spec.batch or (None if own else BATCH)


def prepare_point(
    point: Point,
    grid: Grid,
    spec: StepSpec,
    cluster: Cluster,
) -> Ready:
    """Look whether a point can be simulated, before anything is.

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
    asked = asked_of_model(there, cluster, {})
    return Ready(
        point=point,
        asked=asked,
        ideal=on_ideal_network(cluster),
        prepared=prepare_all(asked, cluster, HowOptions()),
    )


def simulate_point(ready: Ready, on_case: Callable[[], None]) -> tuple[list[Steps], Timeline]:
    """The steps of all strategies at a point, and the timeline of all of them in turn.

    ``on_case`` hears of each that is done, on the cluster and on the ideal network.
    """
    asked, how = ready.asked, HowOptions()
    real = study(asked, asked.cluster, how, ready.prepared, lambda _: on_case())
    prepared = prepare_all(asked, ready.ideal, how)
    ideal = study(asked, ready.ideal, how, prepared, lambda _: on_case())
    steps = []
    for case in asked.cases:
        simulation = real.simulations[case.name]
        usage = usage_of_simulation(simulation)
        step_s = usage.run_time_s
        steps.append(
            Steps(
                point=ready.point,
                strategy=case.name,
                source="simulated",
                times=StepTimes(mean=step_s, median=step_s, p10=step_s, p90=step_s),
                usage=usage,
                ideal=usage_of_simulation(ideal.simulations[case.name]),
                other_s=float(simulation.ranks["other_s"].mean()),
                tokens=asked.tokens,
                folder=f"cells/{ready.point}",
                memory=asked.facts_of[case.name]["model_memory"],
            )
        )
    return steps, real.comparison.timeline
