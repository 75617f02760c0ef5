"""Bytes between each pair of ranks of a program, and its calls, as run.json records them."""

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from steptime.arrays import Floats
from steptime.collectives.call_bytes import pair_bytes
from steptime.program import Collective, Matching, Program, Recv, Send

MOST_PAIRED = 256
"""With more ranks a record leaves out the bytes of pairs."""


def program_bytes(program: Program, matching: Matching) -> Floats:
    """The bytes of a step from each rank to each other, shape (ranks, ranks).

    Computed: collectives as ``pair_bytes`` takes them.
    """
    sent = np.zeros((program.ranks, program.ranks))
    for call, made in zip(matching.calls, matching.callers, strict=True):
        if not call.kind:
            np.add.at(sent, (made.groups[:, 0], made.groups[:, 1]), made.times * call.nbytes)
            continue
        each = pair_bytes(call.kind, call.nbytes, made.groups.shape[1], call.root)
        for group, count in zip(made.groups, made.times.tolist(), strict=True):
            sent[np.ix_(group, group)] += count * each
    return sent


def pairs_record(sent: Floats) -> dict[str, Any]:
    """The record in run.json of bytes from rank to rank, shape (ranks, ranks), without zeros."""
    src, dst = np.nonzero(sent)
    return {
        "src": src.tolist(),
        "dst": dst.tolist(),
        "bytes": np.round(sent[src, dst]).astype(np.int64).tolist(),
    }


def calls_record(program: Program) -> list[Mapping[str, Any]]:
    """The record in run.json of a program's calls: kinds of the intervals by name and stream."""
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
    """A name without the number of its layer or micro-batch."""
    return " ".join(word for word in name.split() if not word.isdigit())
