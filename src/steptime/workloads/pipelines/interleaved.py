"""Interleaved 1F1B: several chunks of layers a stage (arXiv 2104.04473, section 2.2.2)."""

from collections.abc import Iterator

from steptime.workloads.pipelines.schedule import Kind, Pass, Schedule, Shape


def passes(shape: Shape, stage: int) -> Iterator[Pass]:
    """As 1F1B, by groups of as many micro-batches as stages that visit one chunk after another.

    A stage warms up with a group in each chunk but one and two more forwards for each stage that
    follows it: the first micro-batch is then back from its last chunk, and from there from the last
    stage.
    """
    count = shape.micro_batches * shape.chunks
    ahead = min(2 * (shape.stages - 1 - stage) + (shape.chunks - 1) * shape.stages, count)
    yield from (_pass(shape, "forward", place) for place in range(ahead))
    for place in range(count):
        if place + ahead < count:
            yield _pass(shape, "forward", place + ahead)
        yield _pass(shape, "backward", place)


def _pass(shape: Shape, kind: Kind, place: int) -> Pass:
    """The ``place``-th forward or backward pass of a stage."""
    group, within = divmod(place, shape.pieces)
    chunk, number = divmod(within, shape.stages)
    if kind == "backward":
        chunk = shape.chunks - 1 - chunk
    return Pass(kind, group * shape.stages + number, chunk)


SCHEDULE = Schedule(
    name="interleaved",
    summary="1F1B with several chunks of layers a stage: a smaller bubble for more messages.",
    passes=passes,
    interleaved=True,
)
