"""Outsiders: ranks that call in a group that they are not in, and go on as if it had been done."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import seen
from steptime.check.words import do

_OUTSIDE = "outside"


def _outsiders(job: Job) -> Iterator[Finding]:
    """Each line at which ranks call what PyTorch leaves out, with a warning that few read."""
    for one in seen(job, _OUTSIDE, ("call", "at")):
        whom = "it is" if len(one.ranks) == 1 else "they are"
        yield Finding(
            kind=FindingKind.RACE,
            ranks=one.ranks,
            places=one.places("at"),
            what=f"{do(one.ranks, 'makes')} {one.facts['call']} at {one.facts['at']} in a group "
            f"that {whom} not in: nothing is done, and the tensors stay as they are",
            mend="hand the group in which the rank is, as mesh.get_group(dim) gives it; or call "
            "only on its members",
        )


JUDGE = Judge(_outsiders)
