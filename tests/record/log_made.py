"""Logs as ranks write them, made by hand: times in microseconds."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from steptime.record.events import ASYNC, EVENT, Kind
from steptime.record.operations import OPERATIONS
from steptime.record.read import Group, ProcessLog, Signature, Site

US = 1000
_NUMBER = {operation.name: number for number, operation in enumerate(OPERATIONS)}


@dataclass
class Made:
    """A log in the making."""

    rank: int
    ranks: int
    groups: Sequence[Group] = ()
    events: list[Any] = field(default_factory=list)

    def part(self, kind: Kind, begin: float, end: float, ran: float = 0) -> None:
        """A backward, an optimizer's step, or data loading, of which its thread ran so long."""
        peer = 0 if kind is Kind.OPTIMIZER else -1
        self._write(kind=kind, issued=begin, ended=end, peer=peer, bytes=ran * US)

    def call(self, name: str, nbytes: int, issued: float, ended: float, **others: float) -> None:
        """A call that returns at once and is done at ``ended``; by default nobody waits for it."""
        known = {"returned": issued, "flags": ASYNC, "group": 1, "signature": 1, "site": 1}
        self._write(
            kind=Kind.CALL,
            operation=_NUMBER[name],
            bytes=nbytes,
            issued=issued,
            ended=ended,
            **(known | others),
        )

    def blocking(self, name: str, nbytes: int, issued: float, ended: float, **others: int) -> None:
        """A call that returns when it is done."""
        self.call(name, nbytes, issued, ended, flags=0, wait_end=ended, returned=ended, **others)

    def log(self) -> ProcessLog:
        """What a reader would give."""
        events = np.concatenate(self.events)
        return ProcessLog(
            host="here",
            pid=self.rank,
            command=("script.py",),
            rank=self.rank,
            world_size=self.ranks,
            threads=1,
            clock_ns=0,
            wall_ns=0,
            ended=True,
            events=events[np.argsort(events["issued"], kind="stable")],
            groups=dict(enumerate(self.groups or [world(self.ranks)], 1)),
            sites={1: Site("script.py", 7, "main")},
            signatures={1: Signature("float32", ((1,),), True)},
        )

    def _write(self, **fields: Any) -> None:
        row = np.zeros(1, EVENT)
        row["peer"] = -1
        for name, value in fields.items():
            scaled = name in ("issued", "returned", "ended", "wait_begin", "wait_end")
            row[name] = value * US if scaled else value
        self.events.append(row)


def world(ranks: int) -> Group:
    """The default group."""
    return Group("default_pg", "gloo", tuple(range(ranks)))
