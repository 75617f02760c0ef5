"""The step of a recorded job that stands for all: the one of median length among those alike."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from steptime.arrays import Ints
from steptime.record.bounds import job_bounds
from steptime.record.events import Kind
from steptime.record.operations import OPERATIONS
from steptime.record.read import Group, ProcessLog, Signature

CallKey: TypeAlias = tuple[str, Group, int, str, int]
"""Kind, group, bytes, dtype, and root or peer of a call."""


@dataclass(frozen=True, eq=False)
class RankStep:
    """A step of a rank, from ``begin`` to ``end`` in nanoseconds of its clock.

    ``log`` holds its events of this step and the one before alone.
    """

    log: ProcessLog
    begin: int
    end: int

    @cached_property
    def rows(self) -> list[int]:
        """The rows of this step's calls in ``log.calls``."""
        return self._between(self.begin, self.end)

    @cached_property
    def rows_before(self) -> list[int]:
        """The rows of the calls of the step before."""
        return self._between(0, self.begin)

    def _between(self, begin: int, end: int) -> list[int]:
        issued = self.log.calls["issued"]
        return list(np.flatnonzero((issued >= begin) & (issued < end)).tolist())

    @cached_property
    def keys(self) -> tuple[CallKey, ...]:
        """What each of its calls is, in order."""
        calls = self.log.calls
        return tuple(call_key(self.log, calls[row]) for row in self.rows)


@dataclass(frozen=True, eq=False)
class ChosenStep:
    """A step on all ranks: the ``number`` of it, of ``steps``, of which ``alike`` call the same."""

    ranks: tuple[RankStep, ...]
    number: int
    alike: int
    steps: int


def call_key(log: ProcessLog, call: np.void) -> CallKey:
    """What a call is, apart from when it was made."""
    signature = log.signatures.get(int(call["signature"]))
    return (
        OPERATIONS[call["operation"]].kind,
        log.groups[int(call["group"])],
        int(call["bytes"]),
        signature.dtype if signature else "",
        int(call["peer"]),
    )


def chosen_step(logs: Sequence[ProcessLog]) -> ChosenStep:
    """Of the steps that call what most do, the one of median length.

    A step counts as long as on its slowest rank. A job without steps has one: the whole run.
    """
    bounds = job_bounds(logs)
    steps = min(len(one) for one in bounds) - 1
    kinds = [_kinds(log, of_rank[: steps + 1]) for log, of_rank in zip(logs, bounds, strict=True)]
    together = list(zip(*kinds, strict=True))
    usual, alike = Counter(together).most_common(1)[0]
    lengths = np.stack([np.diff(of_rank[: steps + 1]) for of_rank in bounds]).max(axis=0)
    regular = [at for at, one in enumerate(together) if one == usual]
    number = sorted(regular, key=lambda at: lengths[at])[(len(regular) - 1) // 2]
    ranks = [_of_rank(log, of_rank, number) for log, of_rank in zip(logs, bounds, strict=True)]
    return ChosenStep(tuple(ranks), number, alike, steps)


def _kinds(log: ProcessLog, bounds: Ints) -> list[int]:
    """What the calls of each step are, as one number: equal where they are the same.

    But for the tags of messages, which some scripts count up, and the splits of an all_to_all.
    """
    same: dict[Signature, int] = {}
    number_of = {
        number: same.setdefault(replace(one, tag=0, sends=(), receives=()), number)
        for number, one in log.signatures.items()
    }
    calls = log.calls
    calls["signature"] = [number_of.get(one, one) for one in calls["signature"].tolist()]
    step_of = np.searchsorted(bounds, calls["issued"], side="right") - 1
    fields = calls[["operation", "group", "bytes", "signature", "peer"]]
    return [hash(fields[step_of == step].tobytes()) for step in range(len(bounds) - 1)]


def _of_rank(log: ProcessLog, bounds: Ints, number: int) -> RankStep:
    first = int(bounds[max(0, number - 1)])
    begin, end = int(bounds[number]), int(bounds[number + 1])
    events = log.events
    last = np.where(events["kind"] == Kind.CALL, events["issued"], events["ended"])
    kept = events[(last >= first) & (events["issued"] < end)]
    return RankStep(replace(log, events=kept), begin, end)
