"""Bubble: pipelines whose stages wait for each other, for want of micro-batches under way."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from steptime.check.calls import MESSAGES
from steptime.check.finding import CallSite, Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.steps import RankSteps, StepCall, backwards, places, steps_of, waited
from steptime.check.words import ranks_named
from steptime.record.operations import OPERATIONS
from steptime.record.read import Site

_LEAST_GAIN = 0.1
_SEND, _RECV = MESSAGES


@dataclass(frozen=True)
class _Pipeline:
    """Stages in order, and how many micro-batches pass through them in a step.

    ``at_once``: how many of them are under way at most, sent by the first stage and not come back.
    """

    stages: Sequence[RankSteps]
    micro_batches: int
    at_once: int


def _bubbles(job: Job) -> Iterator[Finding]:
    """Pipelines of fewer micro-batches than stages, or of one at a time, by what stages wait.

    The step of m micro-batches on p stages lasts as long as the slowest stage works on m + p - 1 of
    them, and it works on m (GPipe, arXiv 1811.06965). What is told is what twice as many save:
    with more the bubble goes on to shrink, but each may be too small to be computed well. Of those
    that pass one at a time it is what as many save that are under way together.
    """
    for one in _pipelines(steps_of(job)):
        number, ranks = len(one.stages), [stage.log.rank for stage in one.stages]
        in_turn = one.at_once == 1 < one.micro_batches
        if one.micro_batches >= number and not in_turn:
            continue
        length = max(stage.length for stage in one.stages)
        idle = float(np.median(waited(one.stages, _is_message), axis=1).min()) / length
        wanted = one.micro_batches * (1 if in_turn else 2)
        gain = 1 - (1 - idle) * (wanted + number - 1) / wanted
        if gain >= _LEAST_GAIN:
            how, mend = _in_turn(one) if in_turn else _few(one, wanted)
            yield Finding(
                kind=FindingKind.SLOW,
                ranks=sorted(ranks),
                places=_places(one.stages),
                what=f"{ranks_named(ranks)} are a pipeline {how}: each stage waits for the others "
                f"at least {100 * idle:.0f}% of the time",
                mend=mend,
                gain=gain,
            )


def _few(one: _Pipeline, wanted: int) -> tuple[str, str]:
    return (
        f"whose step has {one.micro_batches} micro-batch{'es' * (one.micro_batches > 1)}",
        f"cut the batch into {wanted} micro-batches, and into more as long as the step becomes "
        "shorter, so that all stages work at the same time",
    )


def _in_turn(one: _Pipeline) -> tuple[str, str]:
    return (
        f"that lets one of its {one.micro_batches} micro-batches come back before it begins the "
        "next",
        "send several before the first gradient is waited for, as GPipe and 1F1B do, so that all "
        "stages work at the same time",
    )


def _is_message(call: StepCall) -> bool:
    return call.kind in MESSAGES


def _places(stages: Sequence[RankSteps]) -> list[CallSite]:
    """The line of each stage at which it waits the longest."""
    found = []
    for one in stages:
        by_line = Counter[Site]()
        for call in filter(_is_message, one.calls):
            by_line[call.site] += call.waited
        found += places([one], [site for site, _ in by_line.most_common(1)])
    return found


def _pipelines(ranks: Sequence[RankSteps]) -> Iterator[_Pipeline]:
    """Rows of ranks that train, of which each sends the next as much as it gets back from it."""
    by_rank = {one.log.rank: one for one in ranks}
    messages = {rank: _messages(one) for rank, one in by_rank.items()}
    for rank, first in messages.items():
        row = [rank]
        while (following := _next(row, messages)) is not None:
            row.append(following)
        numbers = {messages[one][_SEND, other] for one, other in pairwise(row)}
        stages = [by_rank[one] for one in row]
        begins = (
            len(row) > 1 and {peer for _, peer in first} == {row[1]} and _sends_first(by_rank[rank])
        )
        if begins and len(numbers) == 1 and all(_trains(one, min(numbers)) for one in stages):
            yield _Pipeline(stages, min(numbers), _at_once(by_rank[rank]))


def _next(row: Sequence[int], messages: Mapping[int, Mapping[tuple[str, int], int]]) -> int | None:
    """The rank behind the last of a row, with which it exchanges messages both ways; one alone."""
    own = messages[row[-1]]
    others = {peer for _, peer in own} - set(row[-2:])
    if len(others) != 1 or (rank := others.pop()) not in messages or rank in row:
        return None
    number, theirs = own.get((_SEND, rank)), messages[rank]
    back = own.get((_RECV, rank)), theirs.get((_SEND, row[-1])), theirs.get((_RECV, row[-1]))
    return rank if number and set(back) == {number} else None


def _messages(one: RankSteps) -> Mapping[tuple[str, int], int]:
    """How many messages a step has, by kind and peer, a rank of the world; rounded down."""
    log, found = one.log, Counter[tuple[str, int]]()
    for call in log.calls:
        kind, peer = OPERATIONS[call["operation"]].kind, int(call["peer"])
        if kind in MESSAGES and one.step_of(int(call["issued"])) is not None:
            members = log.groups[int(call["group"])].ranks
            found[kind, members[peer] if 0 <= peer < len(members) else -1] += 1
    return {key: number // one.number for key, number in found.items() if number >= one.number}


def _at_once(first: RankSteps) -> int:
    """How many more messages a stage has sent than received, at most, in one of its steps."""
    under_way = Counter[int]()
    most = 0
    for call in filter(_is_message, first.calls):
        under_way[call.step] += 1 if call.kind == _SEND else -1
        most = max(most, under_way[call.step])
    return most


def _sends_first(one: RankSteps) -> bool:
    """Whether the first message of most steps is one that leaves."""
    first: dict[int, str] = {}
    for call in filter(_is_message, one.calls):
        first.setdefault(call.step, call.kind)
    return sum(kind == _SEND for kind in first.values()) * 2 > one.number


def _trains(one: RankSteps, micro_batches: int) -> bool:
    """Whether a rank makes as many backwards as there are micro-batches, or more, in most steps."""
    begun = [one.step_of(begin) for begin, *_ in backwards(one)]
    of_step = Counter(step for step in begun if step is not None)
    return sum(number >= micro_batches for number in of_step.values()) * 2 > one.number


JUDGE = Judge(_bubbles)
