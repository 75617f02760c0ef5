"""A program of every kind of op, for tests."""

import numpy as np

from steptime.program import Collective, Compute, Op, Program, Recv, Send, Wait

KINDS = (
    *("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"),
    *("gather", "scatter", "all_to_all", "barrier"),
)


def everything(columns: int, rows: int, dtype: str = "fp32") -> Program:
    """Each collective along each axis and both, and a ring of messages, around some computing."""
    item = {"fp64": 8, "fp32": 4, "bf16": 2, "fp16": 2}[dtype]
    ops: list[Op] = [Compute(name="forward", seconds=1e-4)]
    for axes in (("column",), ("row",), ("column", "row")):
        for number, kind in enumerate(KINDS):
            count = 0 if kind == "barrier" else columns * rows * (70_000 if number < 1 else 31)
            members = (columns if "column" in axes else 1) * (rows if "row" in axes else 1)
            ops.append(
                Collective(
                    name=f"{kind} {'+'.join(axes)}",
                    kind=kind,
                    group=axes,
                    nbytes=count * item,
                    dtype=dtype,
                    root=members - 1,
                    stream="+".join(axes),
                    after=(0,),
                )
            )
    for tag in (0, 3):
        nbytes = item * (1000 + tag)
        ops.append(Send(name="send", axis="column", by=1, nbytes=nbytes, tag=tag, stream="out"))
        ops.append(Recv(name="recv", axis="column", by=-1, nbytes=nbytes, tag=tag, stream="in"))
    ops.append(Wait(name="all", after=tuple(range(1, len(ops)))))
    ops.append(Compute(name="next", seconds=1e-4, after=(-2,)))
    ranks = columns * rows
    return Program(
        name="everything",
        axes={"column": columns, "row": rows},
        lists=(tuple(ops),),
        class_of=np.zeros(ranks, np.int32),
    )
