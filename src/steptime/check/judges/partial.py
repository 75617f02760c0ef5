"""Partial: layers that ranks share, of which each sends back the gradient of its own part alone."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judges import left_out
from steptime.check.judging import Judge
from steptime.check.observed import Noted, noted, places_of

_PARTIAL = "partial"


def _partial(job: Job) -> Iterator[Finding]:
    """Groups whose ranks sum up what comes of a sum, and make no call in the backward.

    What one rank has seen is so of all, for they make the same calls; another may have added
    nothing, as experts for whom there are no tokens.

    Shoeybi et al. 2019, "Megatron-LM", section 3: what goes into a layer of which each rank has a
    part gets a gradient from every part, and they are to be summed up. Where ranks train what they
    have whole beside such layers, ``left_out`` says so by that.
    """
    if any(left_out.JUDGE.judge(job)):
        return
    found: dict[tuple[int, ...], list[Noted]] = {}
    for one in noted(job, _PARTIAL):
        found.setdefault(tuple(one.facts["ranks"]), []).append(one)
    for among, ranks in found.items():
        first, then = (ranks[0].log.sites.get(ranks[0].facts[at]) for at in ("at", "then_at"))
        again = "once more" if first == then else f"again at {then}"
        lines = ("at",) if first == then else ("at", "then_at")
        yield Finding(
            kind=FindingKind.DRIFT,
            ranks=sorted(among),
            places=[
                place
                for at in lines
                for one in ranks
                for place in places_of(one.log, one.facts[at])
            ],
            what=f"{first} sums up in the forward what each rank computes, what comes of that is "
            f"summed up {again}, and no call sums up gradients in the backward: each rank sends "
            "back that of its own part of the later layers, and what is before them is trained by "
            "that alone",
            mend="all_reduce the gradient where it leaves a layer of which each rank has a part: "
            "by a function of autograd that hands on its input in the forward and sums up the "
            "gradient in the backward, at the layer's begin",
        )
        return


JUDGE = Judge(_partial)
