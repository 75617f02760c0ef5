"""The same step on more ranks: data-parallel groups grow, and every rank works as it did."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum

import numpy as np

from steptime.errors import UsageError
from steptime.program.program import Collective, Compute, Op, Program
from steptime.timeline import Phase

_REDUCTIONS = ("all_reduce", "reduce_scatter")
_SMALL_PART = 0.01
"""A group that reduces less than this part of what the busiest does, reduces a norm or a loss."""

_FEW = 0.1
"""What tensor parallelism reduces in a backward it reduces in the forward too: more than this."""


class _Zone(Enum):
    """The part of a step in which a call is made."""

    FORWARD = "forward"
    GRADIENTS = "backward, and what follows it until the update"
    REST = "the update, and what follows it"


def rescaled(program: Program, ranks: int) -> Program:
    """The program on so many ranks, by weak scaling: each has the work of a recorded one.

    Data-parallel is the axis over which gradients are reduced: in the backward or between it and
    the update, and hardly in the forward. Of several the outermost grows. Ranks that are added
    repeat the lists of those that there were; where gradients are reduce-scattered, an update
    takes as much less as there are more to share it.

    Raises UsageError where no axis is data-parallel, or it cannot have so many ranks.
    """
    if ranks == program.ranks:
        return program
    axis, sharded = _data_axis(program)
    old = program.axes[axis]
    size, rest = divmod(old * ranks, program.ranks)
    if rest or not size:
        others = program.ranks // old
        raise UsageError(
            f"{ranks} ranks are no whole number of the {others} that {program.name} has along its "
            f"other axes: choose a multiple of {others}"
        )
    lists = program.lists
    if sharded:
        lists = tuple(tuple(_shared_by(op, size / old) for op in ops) for ops in lists)
    grown = replace(program, lists=lists, axes={**program.axes, axis: size})
    stride = program.strides[axis]
    at = np.arange(ranks)
    inner, along, outer = at % stride, at // stride % size, at // (stride * size)
    like = inner + along % old * stride + outer * stride * old
    return replace(grown, class_of=program.class_of[like])


def _shared_by(op: Op, more: float) -> Op:
    if isinstance(op, Compute) and op.phase == Phase.UPDATE and op.seconds is not None:
        return replace(op, seconds=op.seconds / more)
    return op


def _data_axis(program: Program) -> tuple[str, bool]:
    """The axis that grows, and whether what is updated is sharded along it."""
    reduced: dict[_Zone, dict[tuple[str, ...], int]] = {zone: defaultdict(int) for zone in _Zone}
    scattered: dict[str, int] = defaultdict(int)
    summed: dict[str, int] = defaultdict(int)
    for zone, op in _reductions(program):
        axes = tuple(axis for axis in op.group if program.axes[axis] > 1)
        reduced[zone][axes] += op.nbytes
        if zone is _Zone.GRADIENTS:
            for axis in axes:
                (scattered if op.kind == "reduce_scatter" else summed)[axis] += op.nbytes
    gradients, forward = reduced[_Zone.GRADIENTS], reduced[_Zone.FORWARD]
    most = max(gradients.values(), default=0)
    large = [axes for axes, nbytes in gradients.items() if nbytes > _SMALL_PART * most and axes]
    data = {axis for axes in large if forward[axes] <= _FEW * gradients[axes] for axis in axes}
    data -= {axis for axes in large if forward[axes] > _FEW * gradients[axes] for axis in axes}
    if not data:
        why = (
            f"along {' and '.join(large[0])} it reduces as much in the forward as after it, as "
            "tensor parallelism does"
            if large
            else "it reduces nothing between a backward and an update"
        )
        raise UsageError(
            f"which groups of {program.name} are data-parallel cannot be told, for {why}: simulate "
            f"it on its {program.ranks} ranks, or record it on more"
        )
    axis = [name for name in program.axes if name in data][-1]
    return axis, scattered[axis] > summed[axis]


def _reductions(program: Program) -> Iterator[tuple[_Zone, Collective]]:
    """All reductions of all lists, with the part of the step in which each stands."""
    for ops in program.lists:
        zone = _Zone.REST
        for op in ops:
            if isinstance(op, Compute):
                zone = _zone_after(zone, op)
            elif isinstance(op, Collective) and op.kind in _REDUCTIONS:
                yield zone, op


def _zone_after(zone: _Zone, op: Compute) -> _Zone:
    if op.phase == Phase.UPDATE:
        return _Zone.REST
    if op.name.startswith("forward"):
        return _Zone.FORWARD
    return _Zone.GRADIENTS if op.name.startswith("backward") else zone
