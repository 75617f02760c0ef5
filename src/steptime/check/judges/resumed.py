"""Resumed: ranks that train together, and have loaded checkpoints of other steps."""

from collections.abc import Iterator

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, finding_of, noted
from steptime.check.words import ranks_named
from steptime.words import listed

_RESUMED, _STEPS = "resumed", "steps"


def _resumed(job: Job) -> Iterator[Finding]:
    """The first checkpoints that all ranks load at one line, and that do not say the same step.

    Of ranks that reduce before their steps: others may each evaluate a checkpoint of their own.
    """
    training = {one.rank for one in noted(job, _STEPS) if one.facts["reductions"]}
    by_number: dict[int, list[Noted]] = {}
    for one in noted(job, _RESUMED):
        by_number.setdefault(one.facts["number"], []).append(one)
    for ranks in by_number.values():
        sites = {one.log.sites.get(one.facts["at"]) for one in ranks}
        if len(sites) > 1 or not training or {one.rank for one in ranks} != training:
            return
        for name in ranks[0].facts["counts"]:
            by_count: dict[int | None, list[int]] = {}
            for one in ranks:
                by_count.setdefault(one.facts["counts"].get(name), []).append(one.rank)
            if None not in by_count and len(by_count) > 1:
                told = [f"{count} ({ranks_named(of)})" for count, of in by_count.items()]
                yield finding_of(
                    ranks,
                    FindingKind.DRIFT,
                    f"the ranks go on from checkpoints of other steps: the {name!r} of what is "
                    f"loaded is {listed(told[:4])}, and they train one model",
                    "choose the checkpoint on one rank, the last that all ranks have whole, and "
                    "broadcast which one it is; and write that a save is complete once all ranks "
                    "have saved",
                )
                return


JUDGE = Judge(_resumed)
