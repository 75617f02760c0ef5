"""Program: one training step, as what each rank computes and communicates on its streams.

Streams and dependencies behave as CUDA streams and events do: the ops of one stream run one after
the other in the order of the list; an op begins when the one before it on its stream and all that
it names in ``after`` have ended.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TypeAlias

import numpy as np

from steptime.arrays import Ints
from steptime.program.kernel import Kernel
from steptime.timeline import Phase

After: TypeAlias = tuple[int, ...]
"""Positions, in the rank's list, of ops that must end first.

A negative one counts from the end of the same list in the step before; in the first step it is no
condition.
"""

MAIN = "compute"
"""The stream that a step is counted by: it ends when its last op on this stream has ended."""

PIPELINE = "pipeline"
"""The axis along which the ranks are the stages of a pipeline."""


@dataclass(frozen=True, kw_only=True)
class Compute:
    """Work on the rank's own device.

    It takes ``seconds`` on a device of speed 1. Where that is None, it takes the longer of
    computing ``flops`` operations of ``dtype`` there and moving ``nbytes`` bytes through its
    memory. ``kernels``: what it launches, where that is known; a device whose kernels have
    parameters takes what these take instead.
    """

    name: str
    seconds: float | None = None
    flops: float = 0.0
    nbytes: float = 0.0
    dtype: str = "fp32"
    kernels: tuple[Kernel, ...] = ()
    phase: Phase = Phase.COMPUTE
    stream: str = MAIN
    after: After = ()


@dataclass(frozen=True, kw_only=True)
class Collective:
    """A collective among the ranks that differ along the axes ``group`` alone.

    ``nbytes`` is the whole vector, as ``bench`` counts it: for an all_gather the result on a rank,
    for a reduce_scatter the input of a rank. ``root`` counts within the group. ``algorithm`` is a
    shipped one by name; where it is empty the one who runs the program chooses.
    """

    name: str
    kind: str
    group: tuple[str, ...]
    nbytes: int
    dtype: str = "fp32"
    algorithm: str = ""
    root: int = 0
    stream: str = "comm"
    after: After = ()


@dataclass(frozen=True, kw_only=True)
class _End:
    """One end of a message between this rank and the one ``by`` places further along an axis.

    The axis wraps around. The n-th Send from one rank to another with a ``tag`` matches the n-th
    Recv there with it; both begin when both are reached and end when the last byte is there.
    """

    name: str
    axis: str
    by: int
    nbytes: int
    tag: int = 0
    stream: str = "comm"
    after: After = ()


@dataclass(frozen=True, kw_only=True)
class Send(_End):
    """A message to the rank ``by`` places further along an axis; its other end is a Recv there."""


@dataclass(frozen=True, kw_only=True)
class Recv(_End):
    """A message from the rank ``by`` places further along an axis: the other end of a Send."""


@dataclass(frozen=True, kw_only=True)
class Wait:
    """Nothing but waiting for the ops in ``after``; a timeline shows it as waiting.

    ``seconds``: how long it goes on then, as the part of a call in which its threads wake; where
    ranks share cores as much shorter as fewer of them are idle. Shown as communication.
    """

    name: str
    seconds: float = 0.0
    stream: str = MAIN
    after: After = ()


Op: TypeAlias = Compute | Collective | Send | Recv | Wait


def renumbered(ops: Sequence[Op], now: Sequence[int]) -> tuple[Op, ...]:
    """A rank's list into which ops were put, with all that they wait for found where it is now.

    ``now``: the place of each op of the list as it was, of which every ``after`` still speaks.
    """

    def place(number: int) -> int:
        return now[number] - (len(ops) if number < 0 else 0)

    return tuple(replace(op, after=tuple(map(place, op.after))) for op in ops)


@dataclass(frozen=True, eq=False, kw_only=True)
class Program:
    """One step of all ranks. Ranks that do the same share one list of ops: their class.

    ``axes``: the sizes of the axes that the ranks are laid out along, of which the first varies
    fastest. ``lists``: the ops of each class. ``class_of``: the class of each rank, shape (ranks,).
    ``on_cores``: the seconds of its computing are those of a core, which last longer where ranks
    share cores; else those that passed there, with all that kept the ranks from a core meanwhile.
    """

    name: str
    axes: Mapping[str, int]
    lists: tuple[tuple[Op, ...], ...]
    class_of: Ints
    on_cores: bool = False

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return self.class_of.size

    @cached_property
    def strides(self) -> Mapping[str, int]:
        """The distance in ranks between neighbours along each axis."""
        sizes = list(self.axes.values())
        return {axis: prod(sizes[:place]) for place, axis in enumerate(self.axes)}

    def coordinate(self, axis: str) -> Ints:
        """The coordinate of each rank along an axis, shape (ranks,)."""
        ranks = np.arange(self.ranks, dtype=np.int32)
        return np.asarray(ranks // self.strides[axis] % self.axes[axis], np.int32)

    def peer(self, axis: str, by: int) -> Ints:
        """The rank that is ``by`` places further along an axis from each, shape (ranks,)."""
        here = self.coordinate(axis)
        there = (here + by) % self.axes[axis]
        ranks = np.arange(self.ranks, dtype=np.int32)
        return np.asarray(ranks + (there - here) * self.strides[axis], np.int32)

    def groups(self, axes: tuple[str, ...]) -> Ints:
        """The groups along some axes: ranks in order, shape (groups, members)."""
        base = np.zeros(self.ranks, np.int32)
        for axis in axes:
            base += self.coordinate(axis) * self.strides[axis]
        first = np.arange(self.ranks, dtype=np.int32) - base  # the first rank of each one's group
        members = prod(self.axes[axis] for axis in axes)
        return np.argsort(first, kind="stable").astype(np.int32).reshape(-1, members)
