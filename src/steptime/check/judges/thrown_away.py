"""Thrown away: gradients that are reduced for nothing, as a discriminator's by the other's loss."""

from collections.abc import Iterator, Sequence

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import seen
from steptime.check.steps import LEAST_GAIN, RankSteps, StepCall, cost, step_length, steps_of
from steptime.record.read import Site
from steptime.units import format_bytes

_THROWN_AWAY = "thrown away"


def _thrown_away(job: Job) -> Iterator[Finding]:
    """Models under DDP that lose in each step what one of its backwards has reduced for them."""
    for one in seen(job, _THROWN_AWAY, ("model", "nbytes", "backward_at", "at")):
        facts, nbytes = one.facts, one.facts["nbytes"]
        gain = _gain(steps_of(job), facts["backward_at"], nbytes)
        if gain >= LEAST_GAIN:
            yield Finding(
                kind=FindingKind.SLOW,
                ranks=one.ranks,
                places=[*one.places("at"), *one.places("backward_at")],
                what=f"the backward at {facts['backward_at']} gives gradients to {facts['model']}, "
                f"which is run at {facts['at']}, and DDP reduces all {format_bytes(nbytes)} of "
                "them: they are cleared before any step is made by them",
                mend="call requires_grad_(False) on the model before that forward and "
                "requires_grad_(True) after the backward, or run it within no_sync()",
                gain=gain,
            )


def _gain(ranks: Sequence[RankSteps], backward: Site | None, nbytes: int) -> float:
    """The part of a step that so many bytes take of what DDP reduces in a backward of a line.

    The backward reduces others, too; its calls count by the bytes that the model has of theirs.
    """

    def of_backward(call: StepCall) -> bool:
        return call.of_replicas and call.site == backward

    calls = [call for call in ranks[0].calls if of_backward(call)] if ranks else []
    if not calls:
        return 0.0
    moved = sum(call.size for call in calls) / len({call.step for call in calls})
    return min(1.0, nbytes / moved) * cost(ranks, of_backward) / step_length(ranks)


JUDGE = Judge(_thrown_away)
