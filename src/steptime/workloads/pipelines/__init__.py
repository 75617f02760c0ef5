"""Pipeline schedules: the order in which each stage runs its micro-batches forward and backward."""

from steptime.workloads.pipelines.in_time import PipelineTimeline, Slot, pipeline_timeline
from steptime.workloads.pipelines.lookup import pipeline, schedule_named, schedule_names
from steptime.workloads.pipelines.schedule import KINDS, Kind, Pass, Pipeline, Schedule, Shape

__all__ = [
    "KINDS",
    "Kind",
    "Pass",
    "Pipeline",
    "PipelineTimeline",
    "Schedule",
    "Shape",
    "Slot",
    "pipeline",
    "pipeline_timeline",
    "schedule_named",
    "schedule_names",
]
