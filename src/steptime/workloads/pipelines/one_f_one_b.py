"""1F1B, PipeDream-Flush: one forward, one backward (arXiv 2104.04473, section 2.2.1)."""

from collections.abc import Iterator

from steptime.workloads.pipelines.schedule import Pass, Schedule, Shape


def passes(shape: Shape, stage: int) -> Iterator[Pass]:
    """A stage runs as many forwards ahead as stages follow it, then alternates."""
    ahead = min(shape.stages - 1 - stage, shape.micro_batches)
    yield from (Pass("forward", number) for number in range(ahead))
    for number in range(shape.micro_batches):
        if number + ahead < shape.micro_batches:
            yield Pass("forward", number + ahead)
        yield Pass("backward", number)


SCHEDULE = Schedule(
    name="1f1b",
    summary="One forward, one backward: the bubble of GPipe with fewer micro-batches kept.",
    passes=passes,
)
