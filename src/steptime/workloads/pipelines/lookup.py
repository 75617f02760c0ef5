"""Lookup: the schedules by name, each a file of this folder that defines a SCHEDULE."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType

import steptime.workloads.pipelines as package
from steptime.errors import UsageError
from steptime.workloads.pipelines.schedule import Pipeline, Schedule, Shape


@cache
def _schedules() -> Mapping[str, Schedule]:
    modules = (
        import_module(f"{package.__name__}.{found.name}")
        for found in iter_modules(package.__path__)
    )
    schedules = [module.SCHEDULE for module in modules if hasattr(module, "SCHEDULE")]
    return MappingProxyType({one.name: one for one in sorted(schedules, key=lambda s: s.name)})


def schedule_names() -> tuple[str, ...]:
    """The names of all schedules."""
    return tuple(_schedules())


def pipeline(name: str, *, stages: int, micro_batches: int, chunks: int = 1) -> Pipeline:
    """The schedule ``name`` for so many stages, micro-batches and chunks a stage.

    ``1f1b`` of several chunks is ``interleaved``.

    Raises UsageError where there is no such schedule or it cannot serve that shape; it says what
    is nearest.
    """
    found = _schedules().get(name)
    if found is None:
        known = ", ".join(schedule_names())
        raise UsageError(f"there is no pipeline schedule {name!r}: choose one of {known}")
    counts = {"stages": stages, "micro-batches": micro_batches, "chunks a stage": chunks}
    for what, count in counts.items():
        if count < 1:
            raise UsageError(f"the number of {what} is {count}: it must be at least 1")
    if name == "1f1b" and chunks > 1:
        found = _schedules()["interleaved"]
    _check(found, stages, micro_batches, chunks)
    return Pipeline(found, Shape(stages=stages, micro_batches=micro_batches, chunks=chunks))


def _check(schedule: Schedule, stages: int, micro_batches: int, chunks: int) -> None:
    if not schedule.interleaved:
        if chunks > 1:
            raise UsageError(
                f"{schedule.name} has one chunk a stage, not {chunks}: choose 1f1b or interleaved"
            )
        return
    if chunks < 2:
        raise UsageError(
            f"{schedule.name} needs at least 2 chunks a stage, not {chunks}: ask for 2"
        )
    if stages < 2:
        raise UsageError(f"{schedule.name} needs at least 2 stages, not {stages}")
    if micro_batches % stages:
        below = micro_batches - micro_batches % stages
        near = f"are {below} and {below + stages}" if below else f"is {stages}"
        raise UsageError(
            f"{schedule.name} takes micro-batches by the number of stages, {stages}, and "
            f"{micro_batches} is no multiple of it: the nearest {near}"
        )
