"""A scaling study as a measurement leaves it, made of a formula."""

from typing import Any

from steptime.runs.environment import Environment
from steptime.runs.record import Work
from steptime.runs.scale import ScaleRecord, StepTimes
from steptime.study.scale import Steps, cells_of, scale_record
from steptime.study.scale_options import make_grid
from steptime.timeline.efficiency import Usage


def study(ranks: tuple[int, ...], threads: tuple[int, ...], **facts: Any) -> ScaleRecord:
    """A study of a step that transfers more with every rank, on two cores."""
    grid = make_grid(ranks, threads, ("replicated", "overlapped"), "strong", None)
    everything = []
    for point in grid.points:
        for strategy in grid.strategies_at(point):
            useful = 0.4 / (point.ranks * point.threads**0.8)
            comm = 0.01 * (point.ranks - 1) ** 0.5 / (1 + 2 * (strategy == "overlapped"))
            step_s = 1.02 * useful + comm
            everything.append(
                Steps(
                    point=point,
                    strategy=strategy,
                    source="measured",
                    times=StepTimes(
                        mean=step_s, median=step_s, p10=0.95 * step_s, p90=1.1 * step_s
                    ),
                    usage=Usage(
                        useful_s=(useful,) * point.ranks, run_time_s=step_s, threads=point.threads
                    ),
                    ideal=Usage(useful_s=(useful,) * point.ranks, run_time_s=1.02 * useful),
                    other_s=0.0,
                    tokens=4096,
                    folder=f"cells/{point}",
                )
            )
    environment: dict[str, Any] = {
        "time": "2026-11-20T18:00:00+00:00",
        "command": ["steptime", "scale", "--note", "two words"],
        "host": "a",
        "cpu": "AMD EPYC 7R13",
        "cores": 2,
        "python": "3.11.2",
        "steptime": "0.1.0",
        "versions": {"torch": "2.13.0", "numpy": "2.4.6"},
        "git_revision": None,
    }
    about = {
        "run": "runs/scale",
        "backend": "gloo",
        "steps": 40,
        "warmup": 5,
        "cores": 2,
    }
    work = Work(model="<gpt2> nano", precision="fp32", batch=32)
    cells = cells_of(grid, everything, 2)
    return scale_record(grid, cells, work, Environment(**environment), **about | facts)
