"""Checking that a user's own schedule runs every pass once, on every stage."""

from collections import Counter
from itertools import islice, product
from pathlib import Path

from steptime.discovery import described
from steptime.errors import SteptimeError
from steptime.workloads.pipelines.schedule import KINDS, Pass, Pipeline


def check_passes(pipeline: Pipeline, path: str) -> None:
    """Raise SteptimeError where a stage leaves a pass out, runs one twice, or fails.

    Every micro-batch goes forward once through each chunk, and back once: as ``backward``, or as
    ``backward input`` and ``backward weight``.
    """
    shape = pipeline.shape
    most = len(KINDS) * shape.micro_batches * shape.chunks
    for stage in range(shape.stages):
        try:
            # One more than can be right, in case it does not end.
            passes = list(islice(pipeline.passes(stage), most + 1))
        except Exception as error:
            raise SteptimeError(
                f"{path} fails for stage {stage}: {described(error, Path(path))}"
            ) from None
        if not all(isinstance(one, Pass) and one.kind in KINDS for one in passes):
            raise SteptimeError(
                f"{path} yields what is no pass for stage {stage}: yield Pass(kind, micro_batch, "
                f"chunk), of the kinds {', '.join(KINDS)}"
            )
        _check_stage(Counter(passes), pipeline, stage, path)


def _check_stage(passes: Counter[Pass], pipeline: Pipeline, stage: int, path: str) -> None:
    shape = pipeline.shape
    due: Counter[Pass] = Counter()
    for number, chunk in product(range(shape.micro_batches), range(shape.chunks)):
        split = Pass("backward input", number, chunk) in passes
        halves = ("backward input", "backward weight") if split else ("backward",)
        due.update(Pass(kind, number, chunk) for kind in ("forward", *halves))
    for wrong, what in ((due - passes, "leaves out"), (passes - due, "runs once too often")):
        if wrong:
            one = min(wrong)
            raise SteptimeError(
                f"{path} is wrong: stage {stage} {what} the {one.kind} of micro-batch "
                f"{one.micro_batch} through chunk {one.chunk}"
            )
