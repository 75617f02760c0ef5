"""What the ranks of a program call, and how many bytes go from each to each other."""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from steptime.arrays import Floats
from steptime.collectives.call_bytes import pair_bytes
from steptime.program import Collective, Matching, Program, Recv, Send

MOST_PAIRED = 256
"""Of so many ranks at most a record holds the bytes from each to each."""


def program_bytes(program: Program, matching: Matching) -> Floats:
    """The bytes of a step from each rank to each other, shape (ranks, ranks).

    Computed: collectives as ``pair_bytes`` takes them.
    """
    sent = np.zeros((program.ranks, program.ranks))
    for call, when in zip(matching.calls, matching.instances, strict=True):
        times = np.bincount(when.group, minlength=len(when.groups))
        if not call.kind:
            np.add.at(sent, (when.groups[:, 0], when.groups[:, 1]), times * call.nbytes)
            continue
        each = pair_bytes(call.kind, call.nbytes, when.groups.shape[1], call.root)
        for group, count in zip(when.groups, times.tolist(), strict=True):
            sent[np.ix_(group, group)] += count * each
    return sent


def pairs_record(sent: Floats) -> dict[str, Any]:
    """What run.json holds of bytes from rank to rank, shape (ranks, ranks): all but zeros."""
    src, dst = np.nonzero(sent)
    return {
        "src": src.tolist(),
        "dst": dst.tolist(),
        "bytes": np.round(sent[src, dst]).astype(np.int64).tolist(),
    }


def calls_record(program: Program) -> list[Mapping[str, Any]]:
    """What run.json holds of a program's calls: what the intervals of a name and stream are."""
    found: dict[tuple[str, str, int], Mapping[str, Any]] = {}
    for ops in program.lists:
        for op in ops:
            if not isinstance(op, Collective | Send | Recv):
                continue
            kind = op.kind if isinstance(op, Collective) else type(op).__name__.lower()
            group = op.group if isinstance(op, Collective) else (op.axis,)
            members = prod(program.axes[a] for a in group) if isinstance(op, Collective) else 2
            found.setdefault(
                (call_name(op.name), op.stream, op.nbytes),
                {
                    "name": call_name(op.name),
                    "stream": op.stream,
                    "bytes": op.nbytes,
                    "kind": kind,
                    "group": "+".join(group),
                    "members": members,
                },
            )
    return list(found.values())


def call_name(name: str) -> str:
    """A name without the number of the layer or micro-batch in it: its words alone."""
    return " ".join(word for word in name.split() if not word.isdigit())
