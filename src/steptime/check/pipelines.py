"""Pipelines: ranks of a job that are stages of one, by the messages of their steps."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from steptime.check.calls import MESSAGES
from steptime.check.steps import RankSteps, StepCall, backwards
from steptime.record.operations import OPERATIONS

_SEND, _RECV = MESSAGES


@dataclass(frozen=True)
class Pipeline:
    """Stages in order, and how many micro-batches pass through them in a step.

    ``at_once``: how many of them are under way at most, sent by the first stage and not come back.
    """

    stages: Sequence[RankSteps]
    micro_batches: int
    at_once: int


def is_message(call: StepCall) -> bool:
    """Whether a call sends or receives."""
    return call.kind in MESSAGES


def pipelines(ranks: Sequence[RankSteps]) -> Iterator[Pipeline]:
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
            yield Pipeline(stages, min(numbers), _at_once(by_rank[rank]))


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
    for call in filter(is_message, first.calls):
        under_way[call.step] += 1 if call.kind == _SEND else -1
        most = max(most, under_way[call.step])
    return most


def _sends_first(one: RankSteps) -> bool:
    """Whether the first message of most steps is one that leaves."""
    first: dict[int, str] = {}
    for call in filter(is_message, one.calls):
        first.setdefault(call.step, call.kind)
    return sum(kind == _SEND for kind in first.values()) * 2 > one.number


def _trains(one: RankSteps, micro_batches: int) -> bool:
    """Whether a rank makes as many backwards as there are micro-batches, or more, in most steps."""
    begun = [one.step_of(begin) for begin, *_ in backwards(one)]
    of_step = Counter(step for step in begun if step is not None)
    return sum(number >= micro_batches for number in of_step.values()) * 2 > one.number
