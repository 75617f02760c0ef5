"""What if: a program whose computations, or whose ranks, are faster or slower."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from steptime.cluster.what_if import QUANTITIES
from steptime.errors import UsageError
from steptime.program.program import Compute, Op, Program

_SPEED = re.compile(r"(\d+(?:\.\d*)?)\s*[x×]")
_RANK = re.compile(r"rank\s*(\d+)\s*(.*)")


def split_what_if(text: str, programs: Sequence[Program]) -> tuple[str, dict[str, float]]:
    """What a text changes of anything else, and the speeds that it gives computations and ranks.

    ``forward=2x`` lets every computation whose name begins so be twice as fast, ``rank 3=0.5x`` all
    that rank 3 computes half as fast, ``rank 3 forward=0.5x`` its forward alone. Raises UsageError
    where a speed is none, or there is no such rank or computation.
    """
    # Of the cluster alone, as most are: to read the names of all ops may take longer than a step.
    if all(part.partition("=")[0].strip() in QUANTITIES for part in text.split(",")):
        return text, {}
    names = {
        op.name for one in programs for ops in one.lists for op in ops if isinstance(op, Compute)
    }
    others: list[str] = []
    speeds: dict[str, float] = {}
    for part in text.split(","):
        what, _, figure = (word.strip() for word in part.partition("="))
        rank = _RANK.fullmatch(what)
        computed = what and any(name.startswith(what) for name in names)
        if what in QUANTITIES or not (rank or computed):
            others.append(part)
            continue
        speed = _SPEED.fullmatch(figure)
        if not speed or not float(speed[1]):
            raise UsageError(f"--what-if {what}={figure} is no speed: write 2x or 0.5x")
        if rank and any(int(rank[1]) >= one.ranks for one in programs):
            raise UsageError(
                f"--what-if {what}={figure}: the ranks are 0 to {programs[0].ranks - 1}"
            )
        if rank and not any(name.startswith(rank[2]) for name in names):
            raise UsageError(
                f"--what-if {what}={figure}: nothing that is computed is called {rank[2]}"
            )
        if what in speeds:
            raise UsageError(f"--what-if '{text}' changes {what} twice: leave one out")
        speeds[what] = float(speed[1])
    return ",".join(others), speeds


def with_speeds(program: Program, speeds: Mapping[str, float]) -> Program:
    """The program with its computations at these speeds, by ``split_what_if``."""
    lists = [tuple(_at_speeds(op, speeds) for op in ops) for ops in program.lists]
    class_of = program.class_of.copy()
    for what, speed in speeds.items():
        if found := _RANK.fullmatch(what):
            rank = int(found[1])
            lists.append(tuple(_at_speeds(op, {found[2]: speed}) for op in lists[class_of[rank]]))
            class_of[rank] = len(lists) - 1
    used, number_of = np.unique(class_of, return_inverse=True)
    return replace(
        program,
        lists=tuple(lists[number] for number in used.tolist()),
        class_of=number_of.astype(np.int32),
    )


def _at_speeds(op: Op, speeds: Mapping[str, float]) -> Op:
    for what, speed in speeds.items():
        if op.name.startswith(what):
            op = _faster(op, speed)
    return op


def _faster(op: Op, speed: float) -> Op:
    if not isinstance(op, Compute):
        return op
    seconds = None if op.seconds is None else op.seconds / speed
    kernels = tuple(replace(one, times=one.times / speed) for one in op.kernels)
    return replace(
        op, seconds=seconds, flops=op.flops / speed, nbytes=op.nbytes / speed, kernels=kernels
    )
