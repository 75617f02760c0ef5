"""Statistics: running means that each rank takes of its own data alone, of one replicated model."""

from collections.abc import Iterator, Sequence

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judges.drift import hashed_replicas, ranks_apart
from steptime.check.judging import Judge
from steptime.check.observed import Noted, finding_of, noted
from steptime.check.words import ranks_named
from steptime.words import listed

_STATISTICS = "statistics"
_OTHER = "so that one input is another to each of them"
_LOST = (
    "and DDP gives all ranks those of the first before the next forward: what the others have seen "
    "is lost"
)


def _statistics(job: Job) -> Iterator[Finding]:
    """Modules that normalise by what their rank has seen, though its parameters are all ranks'."""
    modules: dict[tuple[int, str, tuple[str, ...]], dict[int, list[Noted]]] = {}
    for one in noted(job, _STATISTICS):
        facts = one.facts
        key = facts["number"], facts["module"], tuple(facts["names"])
        modules.setdefault(key, {}).setdefault(facts["step"], []).append(one)
    replicas = [
        among
        for (_, _, among, _), steps in (hashed_replicas(job) if modules else {}).items()
        if not ranks_apart(steps) and any(len(of_step) == len(among) for of_step in steps.values())
    ]
    for (_, module, names), by_step in modules.items():
        for among in dict.fromkeys(replicas):
            whole = [
                [one for one in ranks if one.rank in among] for _, ranks in sorted(by_step.items())
            ]
            whole = [ranks for ranks in whole if len(ranks) == len(among)]
            if whole and all(map(_differ, whole)):
                yield _finding(whole[-1], module, names)


def _differ(ranks: Sequence[Noted]) -> bool:
    return len({tuple(one.facts["hashes"]) for one in ranks}) > 1


def _finding(ranks: Sequence[Noted], module: str, names: Sequence[str]) -> Finding:
    return finding_of(
        ranks,
        FindingKind.DATA,
        f"{listed(names)} of {module} are not the same on "
        f"{ranks_named([one.rank for one in ranks])}, though the parameters are: each rank updates "
        f"them from its own data, {_LOST if ranks[0].facts['sent'] else _OTHER}",
        "reduce what they are updated by over the ranks, a mean with its count and squares, or "
        "send those of one rank to the others",
        remark=True,
    )


JUDGE = Judge(_statistics)
