"""Untied: an embedding and a head that were one parameter, and are trained apart."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import seen

_UNTIED = "untied"


def _untied(job: Job) -> Iterator[Finding]:
    """Names of one parameter that were given memory each, and that the first step finds so."""
    for one in seen(job, _UNTIED, ("names", "by", "untied_at", "at")):
        names, by, untied_at = (one.facts[name] for name in ("names", "by", "untied_at"))
        yield Finding(
            kind=FindingKind.DRIFT,
            ranks=one.ranks,
            places=[*one.places("untied_at"), *one.places("at")],
            what=f"{names} are one parameter until {by} at {untied_at} gives each of them "
            "one of its own: from the first step on they are trained apart, each by a part of the "
            "gradient",
            mend="tie them again after that and before the model is sharded or an optimizer made, "
            "as by head.weight = embedding.weight",
        )


JUDGE = Judge(_untied)
