"""DualPipeV: the model folded in two, so that micro-batches enter and leave at the first stage.

DeepSeek's "cut-in-half" of DualPipe (Liu et al., "DeepSeek-V3 Technical Report", arXiv 2412.19437,
section 3.2.1; github.com/deepseek-ai/DualPipe), as ``torch.distributed.pipelining`` runs it. What
these run at once, a forward and a backward, are two passes here, one after the other.
"""

from collections import Counter, deque
from collections.abc import Iterator

from steptime.workloads.pipelines.schedule import Kind, Pass, Schedule, Shape


def passes(shape: Shape, stage: int) -> Iterator[Pass]:
    """A stage has a piece of the way there, chunk 0, and one of the way back, chunk 1."""
    behind, own = shape.stages - 1 - stage, stage + 1
    counts: Counter[tuple[str, int]] = Counter()
    weights: deque[Pass] = deque()

    def run(kind: Kind, chunk: int) -> Pass:
        direction = "forward" if kind == "forward" else "backward"
        number = counts[direction, chunk]
        counts[direction, chunk] += 1
        if kind == "backward input":
            weights.append(Pass("backward weight", number, chunk))
        return Pass(kind, number, chunk)

    for _ in range(2 * behind):
        yield run("forward", 0)
    for _ in range(own):
        yield run("forward", 0)
        yield run("forward", 1)
    for _ in range(behind):
        yield run("backward input", 1)
        yield weights.popleft()
        yield run("forward", 1)
    for _ in range(shape.micro_batches - 2 * shape.stages + own):
        yield run("forward", 0)
        yield run("backward", 1)
        yield run("forward", 1)
        yield run("backward", 0)
    for _ in range(behind):
        yield run("backward", 1)
        yield run("forward", 1)
        yield run("backward", 0)
    # From the middle on, gradients of weights are put off: they fill the bubble of the end.
    for place in range(2 * own):
        late = place >= own // 2 * 2 + (1 - stage % 2)
        yield run("backward input" if late else "backward", 1 - place % 2)
    for _ in range(behind):
        if weights:
            yield weights.popleft()
        yield run("backward input", 0)
    yield from weights


SCHEDULE = Schedule(
    name="dualpipev",
    summary="A model folded in two: stages hold pieces of the way there and of the way back.",
    passes=passes,
    folded=True,
)
