"""Parts: models that all ranks begin alike, and that are reduced among some of them alone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import facts_of, places_of
from steptime.check.samplers import pass_among
from steptime.check.steps import RankSteps, steps_of, work_alike
from steptime.check.words import ranks_named
from steptime.record.read import ProcessLog
from steptime.words import listed

_BEGUN, _HASHES, _AVERAGED = "begun", "hashes", "averaged"
_USUAL = 0.5
"""Ranks that call one another beyond their part in so many of the steps train together."""


@dataclass(frozen=True)
class _Begun:
    """A rank's replica as DDP wrapped it for the ranks of ``part``."""

    log: ProcessLog
    facts: Mapping[str, Any]

    @property
    def part(self) -> tuple[int, ...]:
        return tuple(self.facts["ranks"])

    @property
    def hashes(self) -> dict[str, int]:
        """Those of its parameters that would not begin alike anywhere."""
        return dict(zip(self.facts["names"], self.facts["hashes"], strict=True))


def _parts(job: Job) -> Iterator[Finding]:
    """Models of which each part of the ranks trains one of its own, though they train together.

    Experts and shards differ, too, but not all that is trained: what ranks compute alike stays
    equal, or is reduced among all. What is averaged now and then may differ in between.
    """
    ranks = steps_of(job)
    reduced = {tuple(facts["ranks"]) for log in job.logs for facts in facts_of(log, _HASHES)}
    if not ranks or not work_alike(ranks) or tuple(one.log.rank for one in ranks) in reduced:
        return
    averaged = {facts["model"] for log in job.logs for facts in facts_of(log, _AVERAGED)}
    for model, begun in _by_model(job).items():
        parts = sorted({one.part for one in begun})
        begin_alike = all(one.hashes == begun[0].hashes for one in begun)
        if (
            model not in averaged
            and len(begun) == len(job.logs)
            and len(parts) > 1
            and begun[0].hashes
            and begin_alike
            and _go_apart(begun, model)
            and (all(_call_beyond(one, parts) for one in ranks) or _share_data(begun))
        ):
            yield _finding(model, begun, parts)


def _by_model(job: Job) -> dict[str, list[_Begun]]:
    found: dict[str, list[_Begun]] = {}
    for log in job.logs:
        for facts in facts_of(log, _BEGUN):
            found.setdefault(facts["model"], []).append(_Begun(log, facts))
    return found


def _go_apart(begun: Sequence[_Begun], model: str) -> bool:
    """Whether after every step that was looked at no parameter is the same in two of the parts."""
    steps: dict[int, dict[tuple[int, ...], dict[str, int]]] = {}
    for one in begun:
        for facts in facts_of(one.log, _HASHES):
            if facts["model"] == model:
                hashes = dict(zip(facts["names"], facts["hashes"], strict=True))
                steps.setdefault(facts["step"], {})[one.part] = hashes
    names = list(begun[0].hashes)
    compared = [list(of_parts.values()) for of_parts in steps.values() if len(of_parts) > 1]
    return bool(compared) and all(
        len({hashes.get(name) for hashes in of_parts}) == len(of_parts)
        for of_parts in compared
        for name in names
    )


def _share_data(begun: Sequence[_Begun]) -> bool:
    """Whether one DistributedSampler gives all of them their parts of the data."""
    return all(pass_among(one.log, len(begun)) for one in begun)


def _call_beyond(steps: RankSteps, parts: Sequence[tuple[int, ...]]) -> bool:
    """Whether a rank calls ranks of other parts in most of its steps."""
    log = steps.log
    beyond = {
        number
        for number, group in log.groups.items()
        if not any(set(group.ranks) <= set(part) for part in parts)
    }
    rows = [call for call in log.calls if int(call["group"]) in beyond]
    called = {steps.step_of(int(call["issued"])) for call in rows} - {None}
    return len(called) >= _USUAL * steps.number


def _finding(model: str, begun: Sequence[_Begun], parts: Sequence[tuple[int, ...]]) -> Finding:
    alone = all(len(part) == 1 for part in parts)
    among = (
        "for each rank alone" if alone else f"for {listed([ranks_named(p) for p in parts])} each"
    )
    return Finding(
        kind=FindingKind.DRIFT,
        ranks=[one.log.rank for one in begun],
        places=[place for one in begun for place in places_of(one.log, one.facts["at"])],
        what=f"DistributedDataParallel wraps {model.rpartition(' ')[0]} {among}: all ranks begin "
        f"with the same parameters, and no gradient is reduced between "
        f"{'them' if alone else 'these groups'}, so {'every rank' if alone else 'each'} trains a "
        "model of its own",
        mend="give DistributedDataParallel the group of all ranks that hold this model: with an "
        "axis for sequences or context, those of that axis and of the data axis together",
    )


JUDGE = Judge(_parts)
