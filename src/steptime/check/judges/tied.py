"""Tied: an embedding of one stage, which is the last layer of another, and is stepped apart."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from steptime.check.finding import Finding, FindingKind
from steptime.check.job import Job
from steptime.check.judging import Judge
from steptime.check.observed import Noted, noted
from steptime.check.words import ranks_named

_TIED = "tied"
_Content: TypeAlias = tuple[tuple[int, ...], int]
"""The shape of a weight, and a hash of what it holds."""


@dataclass(frozen=True, eq=False)
class _Weight:
    """A weight of a rank before its first step, and the hash of it before the second."""

    of: Noted
    embeds: bool
    later: int


def _tied(job: Job) -> Iterator[Finding]:
    """The first content that an embedding begins with, and so does what embeds nothing elsewhere.

    A seed does not make them so: an embedding is drawn otherwise than a layer.
    """
    by_content: dict[_Content, list[_Weight]] = {}
    for content, weight in _weights(job):
        by_content.setdefault(content, []).append(weight)
    for (shape, _), weights in by_content.items():
        embedding = {one.of.rank for one in weights if one.embeds}
        others = {one.of.rank for one in weights if not one.embeds} - embedding
        if embedding and others and len({one.later for one in weights}) > 1:
            yield Finding(
                kind=FindingKind.DRIFT,
                ranks=sorted(embedding | others),
                places=[place for one in weights for place in one.of.places],
                what=f"the embedding of {ranks_named(sorted(embedding))} is the last layer of "
                f"{ranks_named(sorted(others))}, {' × '.join(map(str, shape))}, as tied weights "
                "are; each is stepped by its own gradient, and by the second step they differ",
                mend="sum up both gradients before each step, by all_reduce in a group of the "
                "first and the last stage; or train two weights, which begin apart",
            )
            return


def _weights(job: Job) -> Iterator[tuple[_Content, _Weight]]:
    """The weights of all ranks that have begun two steps."""
    looks: dict[int, list[Noted]] = {}
    for one in noted(job, _TIED):
        looks.setdefault(one.rank, []).append(one)
    for of_rank in looks.values():
        first, second = of_rank[0].facts, of_rank[-1].facts
        if first["shapes"] != second["shapes"] or len(of_rank) < 2:
            continue
        for at, shape in enumerate(first["shapes"]):
            weight = _Weight(of_rank[0], first["embeds"][at], second["hashes"][at])
            yield (tuple(shape), first["hashes"][at]), weight


JUDGE = Judge(_tied)
