"""A pipeline in a terminal: a row a stage, a column a slot of time, and how much of it is idle."""

from collections.abc import Mapping, Sequence
from string import ascii_lowercase
from types import MappingProxyType
from typing import Any

from rich.console import Console
from rich.text import Text

from steptime.workloads.pipelines import Kind, Pass, Pipeline, PipelineTimeline
from steptime.workloads.pipelines.in_time import SLOTS

_LETTERS: Mapping[Kind, str] = MappingProxyType(
    {"forward": "F", "backward": "B", "backward input": "B", "backward weight": "W"}
)
_STYLES: Mapping[str, str] = MappingProxyType({"F": "cyan", "B": "yellow", "W": "green"})
_ASIDE = "dim"
_FIRST_PANELS, _LAST_PANELS = 3, 1
_MOST_ROWS, _FIRST_ROWS, _LAST_ROWS = 16, 8, 4


def title(pipeline: Pipeline) -> str:
    """A pipeline in a line."""
    shape = pipeline.shape
    chunks = f" of {shape.chunks} chunks" if shape.chunks > 1 else ""
    stages = f"{shape.stages} {'stage' if shape.stages == 1 else 'stages'}"
    number = shape.micro_batches
    batches = f"{number} {'micro-batch' if number == 1 else 'micro-batches'}"
    return f"{pipeline.schedule.name}, {stages}{chunks}, {batches}"


def verdict(timeline: PipelineTimeline) -> str:
    """How long the step takes, how much of it is idle, and what that rests on."""
    return (
        f"{timeline.slots} slots. Bubble: {_percent(timeline.bubble)} of the step, "
        f"{_percent(timeline.bubble_ratio)} of the work (computed; {_costs(timeline.pipeline)}, a "
        "message nothing)."
    )


def kept(timeline: PipelineTimeline) -> str:
    """How many micro-batches' activations each stage keeps."""
    chunks = timeline.pipeline.shape.chunks
    what = f"micro-batches{f' through one of its {chunks} chunks' if chunks > 1 else ''}"
    if len(set(timeline.in_flight)) == 1:
        return f"In flight at most: {timeline.in_flight[0]} {what} on every stage."
    counts = [str(count) for count in timeline.in_flight]
    if len(counts) > _MOST_ROWS:
        counts[_FIRST_ROWS:-_LAST_ROWS] = ["…"]
    return f"In flight at most, stage by stage: {', '.join(counts)} {what}."


def label(run: Pass, chunks: int) -> str:
    """The micro-batch of a pass and, where there are several, the chunk: a, b and so on."""
    chunk = "" if chunks == 1 else ascii_lowercase[run.chunk] if chunks <= 26 else f".{run.chunk}"
    return f"{run.micro_batch}{chunk}"


def record(timeline: PipelineTimeline) -> dict[str, Any]:
    """A pipeline in time as JSON has it; times are in slots."""
    pipeline = timeline.pipeline
    return {
        "source": "computed",
        "schedule": pipeline.schedule.name,
        "stages": pipeline.shape.stages,
        "micro_batches": pipeline.shape.micro_batches,
        "interleave": pipeline.shape.chunks,
        "slots": timeline.slots,
        "idle_slots": list(timeline.idle),
        "bubble": timeline.bubble,
        "bubble_ratio": timeline.bubble_ratio,
        "in_flight": list(timeline.in_flight),
        "passes": [
            {
                "stage": stage,
                "kind": run.kind,
                "micro_batch": run.micro_batch,
                "chunk": run.chunk,
                "start": start,
                "end": end,
            }
            for stage, slots in enumerate(timeline.stages)
            for run, start, end in slots
        ],
    }


def print_pipeline(console: Console, timeline: PipelineTimeline) -> None:
    """Print a pipeline in time, folded to the width, of many stages and slots both ends."""
    console.print(Text(title(timeline.pipeline), "bold"))
    console.print(Text(timeline.pipeline.schedule.summary))
    console.print(Text(verdict(timeline)))
    console.print(Text(kept(timeline)))
    head = max(len("slot"), len(f"stage {len(timeline.stages) - 1}"))
    wide = _width(timeline)
    each = max(1, (console.width - head - 1) // wide)
    panels = -(-timeline.slots // each)
    numbers = list(range(len(timeline.stages)))
    if len(numbers) > _MOST_ROWS:
        numbers[_FIRST_ROWS:-_LAST_ROWS] = []
    rows = {number: _row(timeline, number, wide) for number in numbers}
    for panel in range(panels):
        if _FIRST_PANELS <= panel < panels - _LAST_PANELS:
            if panel == _FIRST_PANELS:
                console.print(Text("\n⋮", _ASIDE))
            continue
        console.print()
        first, end = panel * each, min((panel + 1) * each, timeline.slots)
        if panels > 1:
            console.print(Text(f"{'slot':{head}} {first}–{end - 1}", _ASIDE))
        for before, number in zip([-1, *numbers], numbers, strict=False):
            if number > before + 1:
                console.print(Text("⋮", _ASIDE))
            line = Text(f"{f'stage {number}':{head}} ")
            line.append_text(rows[number][first * wide : end * wide])
            console.print(line, no_wrap=True)
    console.print(Text(_key(timeline), _ASIDE))


def _width(timeline: PipelineTimeline) -> int:
    """How many characters a slot takes."""
    chunks = timeline.pipeline.shape.chunks
    return 1 + max(len(label(run, chunks)) for run in timeline.pipeline.passes(0))


def _row(timeline: PipelineTimeline, stage: int, wide: int) -> Text:
    """All slots of a stage."""
    row, chunks, at = Text(), timeline.pipeline.shape.chunks, 0
    for run, start, end in timeline.stages[stage]:
        row.append("·" * wide * (start - at), _ASIDE)
        name = f"{_LETTERS[run.kind]}{label(run, chunks)}"
        last = (end - start) * wide
        fill = "─" if end - start > 1 else " "
        row.append(f"{name:{fill}<{last}}", _STYLES[name[0]])
        at = end
    row.append("·" * wide * (timeline.slots - at), _ASIDE)
    return row


def _kinds(pipeline: Pipeline) -> Sequence[Kind]:
    """The kinds of passes that a pipeline has."""
    found = dict.fromkeys(run.kind for run in pipeline.passes(0))
    return [kind for kind in SLOTS if kind in found]


def _costs(pipeline: Pipeline) -> str:
    """What each kind of pass takes."""
    first, *others = _kinds(pipeline)
    chunk = " through a chunk" if pipeline.shape.chunks > 1 else ""
    return ", ".join(
        [f"a {first}{chunk} takes {SLOTS[first]}", *(f"{kind} {SLOTS[kind]}" for kind in others)]
    )


def _key(timeline: PipelineTimeline) -> str:
    """What the signs mean."""
    example = "3b" if timeline.pipeline.shape.chunks > 1 else "3"
    what = "chunk b of micro-batch 3" if timeline.pipeline.shape.chunks > 1 else "micro-batch 3"
    words = {
        "forward": f"F{example} forward of {what}",
        "backward": f"B{example}─ backward",
        "backward input": f"B{example} gradient of its input",
        "backward weight": f"W{example} of its weights",
    }
    return ", ".join([*(words[kind] for kind in _kinds(timeline.pipeline)), "· idle."])


def _percent(part: float) -> str:
    return f"{100 * part:.1f} %"
