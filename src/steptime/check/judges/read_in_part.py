"""Read in part: values that ranks have in parts, as a norm of shards, and one reads its own."""

from collections.abc import Iterator, Sequence

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, finding_of, noted
from steptime.check.words import ranks_named
from steptime.record.read import Site

_READ_IN_PART = "read in part"


def _read_in_part(job: Job) -> Iterator[Finding]:
    """The first of each line that reads such a value, once for the ranks that do."""
    by_line: dict[tuple[Site | None, str], dict[int, Noted]] = {}
    for one in noted(job, _READ_IN_PART):
        line = one.log.sites.get(one.facts["at"]), one.facts["placement"]
        by_line.setdefault(line, {}).setdefault(one.rank, one)
    for (_, placement), first in by_line.items():
        yield _finding(list(first.values()), placement)


def _finding(ranks: Sequence[Noted], placement: str) -> Finding:
    among = sorted({rank for one in ranks for rank in one.facts["ranks"]})
    value = ranks[0].facts["value"]
    return finding_of(
        ranks,
        FindingKind.DRIFT,
        f"a value of which {ranks_named(among)} have a part each is read as if it were whole: "
        f"item() of a DTensor that is {placement} gives the rank's own part, {value:.6g} on rank "
        f"{ranks[0].rank}, as that of a norm or a sum of shards",
        "make it whole on all ranks first, by full_tensor(), and read that",
    )


JUDGE = Judge(_read_in_part)
