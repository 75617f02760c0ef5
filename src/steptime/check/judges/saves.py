"""Saves beside the training that come to nothing: nobody has waited for them."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import seen

_UNFINISHED, _FAILED = "unfinished save", "failed save"
_MEND = (
    "keep what async_save returns, and call its result() before the next save and before "
    "destroy_process_group"
)


def _saves(job: Job) -> Iterator[Finding]:
    """Saves under way when the groups were destroyed, else those that have failed unheard."""
    unfinished = list(seen(job, _UNFINISHED, ("at", "ended_at")))
    for one in unfinished:
        yield Finding(
            kind=FindingKind.RACE,
            ranks=one.ranks,
            places=[*one.places("at"), *one.places("ended_at")],
            what=f"the checkpoint that async_save began at {one.facts['at']} is still being saved "
            f"when {one.facts['ended_at']} destroys its groups: what is left of it may never be "
            "written, without an error",
            mend=_MEND,
        )
    raised = {log.rank for log in job.logs if log.raised is not None}
    for one in seen(job, _FAILED, ("at", "error", "message")) if not unfinished else ():
        if not raised.intersection(one.ranks):
            yield Finding(
                kind=FindingKind.RACE,
                ranks=one.ranks,
                places=one.places("at"),
                what=f"the checkpoint that async_save began at {one.facts['at']} was not saved, "
                f"and nobody has asked: {one.facts['error']}: {one.facts['message']}",
                mend=_MEND,
            )


JUDGE = Judge(_saves)
