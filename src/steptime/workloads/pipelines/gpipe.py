"""GPipe: all forwards, then all backwards (Huang et al., arXiv 1811.06965, section 2.2)."""

from collections.abc import Iterator

from steptime.workloads.pipelines.schedule import Pass, Schedule, Shape


def passes(shape: Shape, _stage: int) -> Iterator[Pass]:
    """Every stage runs all micro-batches in order, forward and then backward."""
    yield from (Pass("forward", number) for number in range(shape.micro_batches))
    yield from (Pass("backward", number) for number in range(shape.micro_batches))


SCHEDULE = Schedule(
    name="gpipe",
    summary="All forwards, then all backwards: every micro-batch is kept.",
    passes=passes,
)
