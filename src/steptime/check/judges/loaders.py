"""Loaders: workers that are started anew for each pass, or that all read all of the data."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judges.batches import hashes_of
from steptime.check.judging import Judge
from steptime.check.observed import facts_of, places_of
from steptime.check.steps import LEAST_GAIN
from steptime.check.words import do
from steptime.record.events import Kind
from steptime.record.read import ProcessLog, Site

_LOADER, _BATCH = "loader", "batch"
_FEWEST = 3
_LEAST_NS = 3e8
"""Starts that take less in all are soon forgotten, however short the passes are."""


def _loaders(job: Job) -> Iterator[Finding]:
    yield from _started_anew(job)
    yield from _repeated(job)


def _started_anew(job: Job) -> Iterator[Finding]:
    """Passes that wait for their workers to start, where those of the pass before were ended."""
    found: dict[Site | None, dict[int, tuple[ProcessLog, int, float]]] = {}
    for log in job.logs:
        for passes in _passes(log).values():
            if len(passes) < _FEWEST or passes[0]["persistent"]:
                continue
            begins = [one["begin_ns"] for one in passes[2:]]
            lost = sum(map(partial(_lost_ns, log), passes[1:], [*begins, log.last]))
            part = lost / (log.last - passes[1]["begin_ns"])
            if lost >= _LEAST_NS and part >= LEAST_GAIN:
                at = passes[0]["at"]
                found.setdefault(log.sites.get(at), {})[log.rank] = log, at, part
    for where, of_rank in found.items():
        gain = min(part for *_, part in of_rank.values())
        yield Finding(
            kind=FindingKind.SLOW,
            ranks=sorted(of_rank),
            places=[place for log, at, _ in of_rank.values() for place in places_of(log, at)],
            what=f"each pass through the data at {where} starts the DataLoader's workers anew, "
            f"waits for their first batch, and ends them: {gain:.0%} of the time",
            mend="keep them from pass to pass: DataLoader(…, persistent_workers=True), made once, "
            "before the loop over the passes",
            gain=gain,
        )


def _passes(log: ProcessLog) -> Mapping[int, Sequence[Mapping[str, Any]]]:
    """The passes of a rank by the line that asked for them."""
    found: dict[int, list[Mapping[str, Any]]] = {}
    for facts in facts_of(log, _LOADER):
        found.setdefault(facts["at"], []).append(facts)
    return found


def _lost_ns(log: ProcessLog, one: Mapping[str, Any], until: int) -> int:
    """How long a pass, over by ``until``, waits for its workers to start and to end.

    For the first batch, too, and at the end for the answer that there is no other.
    """
    loads = log.events[log.events["kind"] == Kind.DATA]
    loads = loads[(loads["issued"] >= one["end_ns"]) & (loads["issued"] < until)]
    waited = (loads["ended"] - loads["issued"])[[0, -1]] if len(loads) > 1 else [0]
    return int(one["end_ns"] - one["begin_ns"] + sum(waited))


def _repeated(job: Job) -> Iterator[Finding]:
    """Streams that every worker yields as a whole, so that each batch comes once from each."""
    ranks = []
    places = []
    for log in job.logs:
        streams = [one for one in facts_of(log, _LOADER) if one["streams"] and one["workers"] > 1]
        hashes = [hashes_of(facts) for facts in facts_of(log, _BATCH) if facts["model"] == 0]
        runs = [len(list(run)) for _, run in groupby(hashes)][:-1]  # the last may be cut off
        alike = len(runs) >= _FEWEST and set(runs) == {streams[0]["workers"]} if streams else False
        if alike:
            ranks.append(log.rank)
            places += places_of(log, streams[0]["at"])
    if ranks:
        yield Finding(
            kind=FindingKind.DATA,
            remark=True,
            ranks=sorted(ranks),
            places=places,
            what=f"{do(ranks, 'trains')} on every batch as often as the DataLoader has workers, "
            "for each of these yields all of the IterableDataset",
            mend="let each worker yield a part of its own: in __iter__ of the data set, "
            "torch.utils.data.get_worker_info() says which of how many it is",
        )


JUDGE = Judge(_loaders)
