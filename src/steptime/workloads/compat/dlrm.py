"""DLRM: embeddings on different ranks, exchanged all to all, and replicated MLPs."""

from itertools import pairwise

import numpy as np

from steptime.program import Program
from steptime.workloads.compat.calls import Calls, collective
from steptime.workloads.compat.original import SLEEPS, original

_DATA = "data"
_ROWS, _DIMENSION = 2048, 128


def _mlp(*widths: int) -> int:
    """Parameters of an MLP of these widths."""
    return sum((before + 1) * after for before, after in pairwise(widths))


_BOTTOM = _mlp(128, 128, 128, 128)
_TOP = _mlp(138, 512, 512, 512, 256, 1)


@original(
    warm_up=0,
    runs=1,
    defects=(
        "Elements that the ranks do not divide are left out of the exchange, and more than 262144 "
        "ranks exchange nothing.",
        "Each rank computes the same however many there are, and the batch of 2048 rows stays "
        "that of all together.",
        "Every rank sends as much as one table yields, however many ranks share the 4 tables.",
        "It is run once, without a warm-up.",
        'The line that it prints calls it "MoEs".',
        SLEEPS,
    ),
)
def dlrm(*, ranks: int) -> Program:
    """Embeddings exchanged, both MLPs forward and backward, their gradients behind them."""
    calls = Calls()
    exchange = collective("embeddings", "all_to_all", (_DATA,), _ROWS * _DIMENSION // ranks * ranks)
    calls.compute("embedding", 95)
    calls.call(exchange)
    for name, duration in (("bottom", 341), ("interaction", 209), ("top", 455)):
        calls.compute(name, duration)
    calls.compute("backward top", 910)
    top = calls.post(collective("top gradients", "all_reduce", (_DATA,), _TOP))
    for name, duration in (("backward interaction", 209), ("backward bottom", 682)):
        calls.compute(name, duration)
    bottom = calls.post(collective("bottom gradients", "all_reduce", (_DATA,), _BOTTOM))
    calls.call(exchange)
    calls.compute("backward embedding", 190)
    calls.wait("both gradients", top, bottom)
    return Program(
        name=f"dlrm data {ranks}",
        axes={_DATA: ranks},
        lists=(calls.ops,),
        class_of=np.zeros(ranks, np.int32),
    )
