"""ZB-H1: zero-bubble 1F1B with backward in two, whose weight gradients fill the bubble.

Qi, Wan, Huang, Lin, "Zero Bubble Pipeline Parallelism" (arXiv 2401.10241, section 2.1).
"""

from collections.abc import Iterator

from steptime.workloads.pipelines.schedule import Pass, Schedule, Shape


def passes(shape: Shape, stage: int) -> Iterator[Pass]:
    """1F1B that delays weight gradients by as many micro-batches as stages precede this one.

    Every stage thus keeps as many micro-batches as the first one does under 1F1B.
    """
    ahead = min(shape.stages - 1 - stage, shape.micro_batches)
    yield from (Pass("forward", number) for number in range(ahead))
    for number in range(shape.micro_batches):
        if number + ahead < shape.micro_batches:
            yield Pass("forward", number + ahead)
        yield Pass("backward input", number)
        if number >= stage:
            yield Pass("backward weight", number - stage)
    done = max(shape.micro_batches - stage, 0)
    yield from (Pass("backward weight", number) for number in range(done, shape.micro_batches))


SCHEDULE = Schedule(
    name="zb-h1",
    summary="1F1B that puts off the gradients of weights: a third of its bubble.",
    passes=passes,
)
