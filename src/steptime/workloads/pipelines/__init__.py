"""Pipeline schedules: in which order each stage runs its micro-batches forward and backward."""

from steptime.workloads.pipelines.course import Course, Slot, course
from steptime.workloads.pipelines.lookup import pipeline, schedule_names
from steptime.workloads.pipelines.schedule import KINDS, Kind, Pass, Pipeline, Schedule, Shape

__all__ = [
    "KINDS",
    "Course",
    "Kind",
    "Pass",
    "Pipeline",
    "Schedule",
    "Shape",
    "Slot",
    "course",
    "pipeline",
    "schedule_names",
]
