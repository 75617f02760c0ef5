"""Schedules by name: each is a file of this folder, or of the user's, with a SCHEDULE."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

import steptime.workloads.pipelines as package
from steptime.discovery import is_file, member_of_file, members
from steptime.errors import UsageError
from steptime.nearest import mend
from steptime.workloads.pipelines.complete import check_passes
from steptime.workloads.pipelines.in_time import pipeline_timeline
from steptime.workloads.pipelines.schedule import Pipeline, Schedule, Shape


@cache
def _schedules() -> Mapping[str, Schedule]:
    schedules = members(package.__name__, "SCHEDULE", Schedule)
    return MappingProxyType({one.name: one for one in sorted(schedules, key=lambda s: s.name)})


def schedule_names() -> tuple[str, ...]:
    """The names of all schedules."""
    return tuple(_schedules())


def schedule_named(word: str) -> Schedule:
    """The schedule of that name, or that of ``FILE.py``.

    Raises UsageError, which lists all, where there is none.
    """
    if is_file(word):
        return member_of_file(word, "SCHEDULE", Schedule, what="pipeline schedule")
    if word not in _schedules():
        raise UsageError(f"there is no pipeline schedule {word!r}: {mend(word, _schedules())}")
    return _schedules()[word]


def pipeline(name: str, *, stages: int, micro_batches: int, chunks: int = 1) -> Pipeline:
    """The schedule ``name`` for so many stages, micro-batches and chunks a stage.

    ``1f1b`` of several chunks is ``interleaved``.

    Raises UsageError where there is no such schedule or it cannot serve that shape; it names the
    nearest shapes. A user's schedule is checked: SteptimeError where it does not run every pass
    once.
    """
    found = schedule_named(name)
    counts = {"stages": stages, "micro-batches": micro_batches, "chunks a stage": chunks}
    for what, count in counts.items():
        if count < 1:
            raise UsageError(f"the number of {what} is {count}: it must be at least 1")
    if name == "1f1b" and chunks > 1:
        found = schedule_named("interleaved")
    _check(found, stages, micro_batches, chunks)
    shape = Shape(stages=stages, micro_batches=micro_batches, chunks=chunks, folded=found.folded)
    made = Pipeline(found, shape)
    if is_file(name):
        check_passes(made, name)
        pipeline_timeline(made)
    return made


def _check_folded(name: str, stages: int, micro_batches: int, chunks: int) -> None:
    if chunks != 2:
        raise UsageError(f"{name} needs 2 chunks a stage, not {chunks}: ask for 2")
    if stages < 2:
        raise UsageError(f"{name} needs at least 2 stages, not {stages}")
    if micro_batches < 2 * stages:
        raise UsageError(
            f"{name} needs at least twice as many micro-batches as stages, and {micro_batches} are "
            f"too few for {stages}: ask for {2 * stages}"
        )


def _check(schedule: Schedule, stages: int, micro_batches: int, chunks: int) -> None:
    if schedule.folded:
        _check_folded(schedule.name, stages, micro_batches, chunks)
    elif schedule.interleaved:
        _check_interleaved(schedule.name, stages, micro_batches, chunks)
    elif chunks > 1:
        raise UsageError(
            f"{schedule.name} has one chunk a stage, not {chunks}: choose 1f1b or interleaved"
        )


def _check_interleaved(name: str, stages: int, micro_batches: int, chunks: int) -> None:
    if chunks < 2:
        raise UsageError(f"{name} needs at least 2 chunks a stage, not {chunks}: ask for 2")
    if stages < 2:
        raise UsageError(f"{name} needs at least 2 stages, not {stages}")
    if micro_batches % stages:
        below = micro_batches - micro_batches % stages
        near = f"are {below} and {below + stages}" if below else f"is {stages}"
        raise UsageError(
            f"{name} takes micro-batches by the number of stages, {stages}, and "
            f"{micro_batches} is no multiple of it: the nearest {near}"
        )
