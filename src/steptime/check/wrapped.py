"""Models that ranks wrap together in DDP, and that these ranks have not built alike."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Any, TypeAlias

from steptime.check.finding import CallSite
from steptime.check.job import Job
from steptime.check.observed import facts_of, places_of
from steptime.record.read import ProcessLog

_WRAPPED = "wrapped"

Parameter: TypeAlias = tuple[str, tuple[int, ...]]
"""The name and the shape of a parameter."""


@dataclass(frozen=True, eq=False)
class Wrapped:
    """A model that ranks wrap together; ``of_rank``: each rank's log and what it noted."""

    of_rank: Mapping[int, tuple[ProcessLog, Mapping[str, Any]]]

    @cached_property
    def parameters(self) -> Mapping[int, Sequence[Parameter]]:
        """Those of each rank that are trained, in order."""
        return {
            rank: [(name, tuple(shape)) for name, shape in facts["parameters"]]
            for rank, (_, facts) in self.of_rank.items()
        }

    def first_unlike(self) -> Mapping[int, Parameter | None]:
        """The first parameter that the ranks do not have alike, of each; None where it has none."""
        for of_ranks in zip_longest(*self.parameters.values()):
            if len({one and one[1] for one in of_ranks}) > 1:
                return dict(zip(self.parameters, of_ranks, strict=True))
        return {}

    @property
    def model(self) -> str:
        """Its class."""
        return next(str(facts["model"]) for _, facts in self.of_rank.values())

    @property
    def places(self) -> list[CallSite]:
        """Where each rank wraps it."""
        return [
            place for log, facts in self.of_rank.values() for place in places_of(log, facts["at"])
        ]

    @cached_property
    def in_other_order(self) -> tuple[str, Mapping[int, Sequence[str]]] | None:
        """What all ranks have alike but for its order, parameters or buffers, and the names."""
        for what in ("parameters", "buffers"):
            names = {
                rank: [name for name, _ in facts.get(what, ())]
                for rank, (_, facts) in self.of_rank.items()
            }
            differ = len({tuple(one) for one in names.values()}) > 1
            if differ and len({tuple(sorted(one)) for one in names.values()}) == 1:
                return what, names
        return None


def wrapped_unlike(job: Job) -> Wrapped | None:
    """The first model that ranks have not built alike, where one of them raised for it.

    DDP compares only the shapes, and so does this.
    """
    return next(
        (
            one
            for one in _wrapped(job)
            if any(log.raised for log, _ in one.of_rank.values()) and one.first_unlike()
        ),
        None,
    )


def wrapped_in_other_order(job: Job) -> Wrapped | None:
    """The first model whose parameters or buffers ranks have in other orders.

    DDP goes by these, and compares no more than the shapes of parameters.
    """
    return next((one for one in _wrapped(job) if one.in_other_order), None)


def _wrapped(job: Job) -> Iterator[Wrapped]:
    """All models that were wrapped, in order: the n-th of a group's ranks on all of them."""
    found: dict[tuple[tuple[int, ...], int], dict[int, tuple[ProcessLog, Mapping[str, Any]]]] = {}
    for log in job.logs:
        for facts in facts_of(log, _WRAPPED):
            of = found.setdefault((tuple(facts["ranks"]), facts["number"]), {})
            of[log.rank] = log, facts
    yield from map(Wrapped, found.values())
