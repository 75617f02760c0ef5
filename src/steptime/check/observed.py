"""Observations of all ranks, those that are alike put together."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steptime.check.finding import CallSite, Finding, FindingKind, on_rank
from steptime.check.job import Job
from steptime.record.read import Observation, ProcessLog, Site

_PLACE = "at"
"""Facts whose names end so are numbers of places in the code."""


@dataclass(frozen=True)
class Seen:
    """What observers noted alike on some ranks; ``facts`` have a Site, or None, for each place."""

    facts: Mapping[str, Any]
    ranks: Sequence[int]

    def places(self, name: str) -> list[CallSite]:
        """The line of a fact, on every rank; none where it is not known."""
        site = self.facts[name]
        if not isinstance(site, Site):
            return []
        return [on_rank(rank, site) for rank in self.ranks]


@dataclass(frozen=True)
class Noted:
    """What an observer noted in one rank."""

    log: ProcessLog
    facts: Mapping[str, Any]

    @property
    def rank(self) -> int:
        """Which rank it is of."""
        return self.log.rank

    @property
    def places(self) -> list[CallSite]:
        """The line at which it was noted; none where that is not known."""
        return places_of(self.log, self.facts["at"])


def noted(job: Job, what: str) -> list[Noted]:
    """What was noted in all ranks under the name ``what``, rank by rank in order."""
    return [Noted(log, facts) for log in job.logs for facts in facts_of(log, what)]


def finding_of(
    ranks: Sequence[Noted], kind: FindingKind, what: str, mend: str, *, remark: bool = False
) -> Finding:
    """What is found of all ranks that have noted it, at the lines where they did."""
    return Finding(
        kind=kind,
        remark=remark,
        ranks=sorted(one.rank for one in ranks),
        places=[place for one in ranks for place in one.places],
        what=what,
        mend=mend,
    )


def whole_calls(
    job: Job, what: str
) -> Iterator[tuple[Site | None, tuple[int, ...], list[list[Noted]]]]:
    """What all ranks of a group noted of the calls of each line: its place, the ranks, the calls.

    Lines that the script comes to in several ways count as several, for layers may call one helper.
    Calls that not all of the ranks have noted are left out.
    """
    lines: dict[tuple[Site | None, int, tuple[int, ...]], dict[int, list[Noted]]] = {}
    for one in noted(job, what):
        facts = one.facts
        line = one.log.sites.get(facts["at"]), facts.get("way", 0), tuple(facts["ranks"])
        lines.setdefault(line, {}).setdefault(facts["number"], []).append(one)
    for (site, _, among), by_number in lines.items():
        yield site, among, [ranks for ranks in by_number.values() if len(ranks) == len(among)]


def places_of(log: ProcessLog, number: int) -> list[CallSite]:
    """The line of a place in the code of a rank, by its number; none where it is not known."""
    site = log.sites.get(number)
    return [on_rank(log.rank, site)] if site else []


def facts_of(log: ProcessLog, what: str) -> list[Mapping[str, Any]]:
    """What was observed in a rank under the name ``what``, in order."""
    return [one.facts for one in log.observed if one.what == what]


def seen(job: Job, what: str, names: Sequence[str]) -> Iterator[Seen]:
    """What was observed under the name ``what``, once for all ranks on which ``names`` agree."""
    ranks: dict[tuple[Any, ...], list[int]] = {}
    for log in job.logs:
        for one in log.observed:
            if one.what == what:
                of = ranks.setdefault(tuple(_fact(log, one, name) for name in names), [])
                of.append(log.rank)
    for facts, of_facts in ranks.items():
        yield Seen(dict(zip(names, facts, strict=True)), sorted(set(of_facts)))


def _fact(log: ProcessLog, one: Observation, name: str) -> Any:
    value = one.facts.get(name)
    if name.endswith(_PLACE):
        return log.sites.get(value) if isinstance(value, int) else None
    return value
