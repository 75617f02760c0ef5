"""Where the ranks of each axis are: how many share a host, and what they send each other."""

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from steptime.arrays import Ints
from steptime.program import Collective, Program
from steptime.replay.demand import predicted
from steptime.runs.figures import AxisPlacement
from steptime.units import format_bytes

RANKS_OF_A_HOST = 8
"""Where nothing says how many ranks a host has: as many as GPUs in most hosts built for training"""

_SCALAR_BYTES = 8


def hosts_of(ranks: int, ranks_per_host: int | None = None) -> Ints:
    """The host of each rank where every host takes the next so many, shape (ranks,)."""
    each = ranks_per_host or RANKS_OF_A_HOST
    return np.arange(ranks, dtype=np.int32) // np.int32(each)


def spread(program: Program, host_of: Ints) -> list[AxisPlacement]:
    """How the groups of each axis, and of several that carry more than a number, are spread.

    ``host_of``: the host of each rank, shape (ranks,).
    """
    sent: dict[str, int] = {}
    for moved in predicted(program):
        for label, traffic in moved.items():
            sent[label] = max(sent.get(label, 0), traffic.sent)
    axes = [axis for axis, size in program.axes.items() if size > 1]
    return [
        _spread(program, host_of, label, sent.get(label, 0)) for label in (*axes, *_joined(program))
    ]


def _joined(program: Program) -> list[str]:
    """The groups along several axes, by the order of their collectives."""
    found = [
        "+".join(op.group)
        for ops in program.lists
        for op in ops
        if isinstance(op, Collective) and len(op.group) > 1 and op.nbytes > _SCALAR_BYTES
    ]
    return list(dict.fromkeys(found))


def _spread(program: Program, host_of: Ints, label: str, sent: int) -> AxisPlacement:
    axes = tuple(label.split("+"))
    hosts = np.sort(host_of[program.groups(axes)], axis=1)  # (groups, members)
    begins = np.ones(hosts.shape, np.bool_)
    begins[:, 1:] = hosts[:, 1:] != hosts[:, :-1]
    together = np.diff(np.flatnonzero(np.append(begins.ravel(), True)))
    return AxisPlacement(
        axis=label,
        size=prod(program.axes[axis] for axis in axes),
        stride=min(program.strides[axis] for axis in axes),
        in_host=int(together.max()),
        hosts=int(begins.sum(axis=1).max()),
        sent_bytes=sent,
    )


def spread_lines(rows: Sequence[AxisPlacement], where: str = "") -> Iterator[str]:
    """A table for people, of what ``spread`` gives: a line an axis, up to 80 columns.

    ``where``: what is assumed of hosts, in a few words.
    """
    if not rows:
        return
    title = f"axis (computed{where and ', '}{where})"
    columns = f"{'ranks':>6} {'stride':>7} {'in a host':>10} {'hosts':>6} {'sent a step':>12}"
    yield f"{title:<30} {columns}"
    for row in rows:
        yield (
            f"  {row.axis:<28.28} {row.size:>6,} {row.stride:>7,} {row.in_host:>10,} "
            f"{row.hosts:>6,} {format_bytes(row.sent_bytes):>12}"
        )


def how_cut(name: str) -> str:
    """What the name of a program says of how its model was cut, in words; often nothing."""
    return name.partition("(")[2].rpartition(")")[0]
