"""What ``show pipeline`` does: a pipeline schedule in time, with its bubble."""

from dataclasses import dataclass, fields
from pathlib import Path

from steptime.cli.options import PrintOptions
from steptime.cli.printing import say, say_json, writing
from steptime.errors import UsageError

_MOST_FORWARDS = 100_000


@dataclass(frozen=True, kw_only=True)
class PipelineOptions:
    """Which pipeline schedule is shown."""

    stages: int | None = None
    """Of a pipeline: how many stages; default: 4."""

    microbatches: int | None = None
    """Of a pipeline: how many micro-batches; default: 8."""

    schedule: str | None = None
    """Of a pipeline: 1f1b, gpipe, interleaved, zb-h1, or FILE.py with one of your own, which is
    run; default: 1f1b."""

    interleave: int | None = None
    """Of a pipeline, with 1f1b or interleaved: how many chunks of layers each stage holds."""

    svg: Path | None = None
    """Of a pipeline: draw it to this file."""

    def given(self) -> list[str]:
        """The options that were given, as they were written."""
        return [f"--{one.name}" for one in fields(self) if getattr(self, one.name) is not None]


def show_pipeline(asked: PipelineOptions, html: Path | None, output: PrintOptions) -> None:
    """Print or draw a pipeline schedule in time, and write its page where one is asked for.

    Raises UsageError where the schedule does not serve these numbers or would be too long to draw.
    """
    from steptime.files import write_atomic
    from steptime.report.pipeline import print_pipeline, record
    from steptime.report.pipeline_page import write_pipeline
    from steptime.report.pipeline_picture import picture
    from steptime.workloads.pipelines import pipeline, pipeline_timeline, schedule_named

    schedule = asked.schedule or "1f1b"
    fewest = schedule_named(schedule).fewest_chunks
    made = pipeline(
        schedule,
        stages=4 if asked.stages is None else asked.stages,
        micro_batches=8 if asked.microbatches is None else asked.microbatches,
        chunks=fewest if asked.interleave is None else asked.interleave,
    )
    shape = made.shape
    forwards = shape.pieces * shape.micro_batches
    if forwards > _MOST_FORWARDS:
        raise UsageError(
            f"{shape.micro_batches:,} micro-batches through {shape.pieces:,} chunks are "
            f"{forwards:,} forwards and at most {_MOST_FORWARDS:,} are drawn: show fewer of either"
        )
    shown = pipeline_timeline(made)
    if asked.svg is not None:
        with writing(asked.svg):
            write_atomic(asked.svg, picture(shown).encode())
    if html is not None:
        with writing(html):
            write_pipeline(html, shown)
    page = {"page": str(html or asked.svg)} if html or asked.svg else {}
    if output.json:
        say_json({"verb": "show", **page, "pipeline": record(shown)})
        return
    told = output.rendered(lambda console: print_pipeline(console, shown))
    told += f"\npicture: {asked.svg}" * bool(asked.svg)
    say(told + f"\npage: {html}" * bool(html))
