"""The page of a pipeline schedule: the step drawn, and what each stage waits and keeps."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from steptime.report.pipeline import kept, title, verdict
from steptime.report.pipeline_picture import LEGEND, bare_picture
from steptime.report.template import write_html
from steptime.workloads.pipelines import PipelineTimeline


def write_pipeline(path: Path, shown: PipelineTimeline) -> None:
    """Write the page of a pipeline in time, atomically: one file, no scripts."""
    write_html(path, "pipeline.html", context(shown))


def context(shown: PipelineTimeline) -> dict[str, Any]:
    """What the template shows."""
    from markupsafe import Markup

    kinds = {run.kind for run in shown.pipeline.passes(0)}
    return {
        "headline": f"{title(shown.pipeline)}: {_percent(shown.bubble)} of the step is bubble",
        "verdict": verdict(shown),
        "summary": shown.pipeline.schedule.summary,
        "kept": kept(shown),
        "legend": [(color, words) for kind, color, words in LEGEND if kind in kinds],
        "chunks": shown.pipeline.shape.chunks,
        "picture": Markup(bare_picture(shown)),  # noqa: S704 - every text in it is escaped
        "stages": list(_stages(shown)),
        "command": _command(shown),
    }


def _stages(shown: PipelineTimeline) -> Iterator[list[str]]:
    """Of each stage its slots of work, its idle ones by where they lie, and what it keeps."""
    for stage, passes in enumerate(shown.stages):
        idle, before, after = shown.idle[stage], passes[0].start, shown.slots - passes[-1].end
        counts = (shown.slots - idle, before, idle - before - after, after)
        part = _percent(idle / shown.slots)
        yield [str(stage), *map(str, counts), part, str(shown.in_flight[stage])]


def _command(shown: PipelineTimeline) -> str:
    schedule, shape = shown.pipeline.schedule.name, shown.pipeline.shape
    chunks = f" --interleave {shape.chunks}" if shape.chunks > 1 else ""
    return (
        f"steptime show pipeline --stages {shape.stages} --microbatches {shape.micro_batches} "
        f"--schedule {schedule}{chunks}"
    )


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %"
