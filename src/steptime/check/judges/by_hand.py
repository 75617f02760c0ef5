"""By hand: gradients that a script sends between ranks, and of which its steps know nothing."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Seen, seen

_BY_HAND = "by hand"


def _by_hand(job: Job) -> Iterator[Finding]:
    """Steps by gradients of one rank, where the script reduces or broadcasts some of them."""
    for one in seen(job, _BY_HAND, ("fault", "at", "step_at", "root")):
        what, mend = _SENTENCES[one.facts["fault"]](one)
        yield Finding(
            kind=FindingKind.DRIFT,
            ranks=one.ranks,
            places=[*one.places("at"), *one.places("step_at")],
            what=what,
            mend=mend,
        )


def _late(one: Seen) -> tuple[str, str]:
    return (
        f"what is reduced at {one.facts['at']} are gradients by which the optimizer has stepped "
        f"already: those of the next step are made anew, and each rank steps by its own at "
        f"{one.facts['step_at']}",
        "reduce the gradients after the backward and before the step",
    )


def _to_one(one: Seen) -> tuple[str, str]:
    root = one.facts["root"]
    return (
        f"the gradients are summed up at {one.facts['at']} on rank {root} alone, and every rank "
        f"steps at {one.facts['step_at']}: all but rank {root} by gradients of their own",
        f"all_reduce the gradients, or let rank {root} alone step and broadcast the parameters "
        "after each step",
    )


def _of_one(one: Seen) -> tuple[str, str]:
    root = one.facts["root"]
    return (
        f"the gradients of rank {root} are broadcast at {one.facts['at']} and take the place of "
        f"those of all others, whose batches are computed in vain",
        "all_reduce the gradients and divide them by the number of ranks",
    )


def _dropped(one: Seen) -> tuple[str, str]:
    return (
        f"{one.facts['at']} sums up a copy of a gradient in a hook, and the gradient that goes on "
        "is what it was: the sum is dropped, and each rank steps by its own",
        "return from the hook what the optimizer is to step by, or write it into the gradient",
    )


def _picked(one: Seen) -> tuple[str, str]:
    return (
        f"the gradients are reduced at {one.facts['at']} by their {one.facts['fault']}, element by "
        f"element, and the optimizer steps by that at {one.facts['step_at']}: it is the gradient "
        "of no batch",
        "all_reduce gradients with ReduceOp.SUM and divide them by the number of ranks, or with "
        "ReduceOp.AVG",
    )


_SENTENCES = {
    "dropped": _dropped,
    "late": _late,
    "to one": _to_one,
    "of one": _of_one,
    **dict.fromkeys(("max", "min", "product"), _picked),
}

JUDGE = Judge(_by_hand)
