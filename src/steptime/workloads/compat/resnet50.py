"""ResNet-50: data parallelism, communication alone, in the two tests of one original."""

import numpy as np

from steptime.program import Program
from steptime.workloads.compat.calls import Calls, collective, recv, send
from steptime.workloads.compat.original import original

_DATA = "data"
_BUCKETS = (3104745, 4461568, 4462592, 4986880, 4468736, 4074560)  # elements

_NOTHING_COMPUTED = "Nothing is computed, so nothing could hide the communication."


@original(warm_up=10, runs=512, defects=(_NOTHING_COMPUTED,))
def resnet50(*, ranks: int) -> Program:
    """Its first test: the gradients in 6 buckets, a blocking sum for each."""
    calls = Calls()
    for number, elements in enumerate(_BUCKETS):
        calls.call(collective(f"bucket {number}", "all_reduce", (_DATA,), elements))
    return _program("resnet50", ranks, calls)


@original(
    warm_up=10,
    runs=512,
    defects=(
        "Each bucket goes one place round the ring and stays there: no sum of gradients comes of "
        "it.",
        _NOTHING_COMPUTED,
    ),
)
def resnet50_ring(*, ranks: int) -> Program:
    """Its second test: each of the 6 buckets from the left neighbour and to the right one."""
    calls = Calls()
    for number, elements in enumerate(_BUCKETS):
        got = calls.post(recv(f"receive {number}", _DATA, -1, elements))
        sent = calls.post(send(f"send {number}", _DATA, 1, elements))
        calls.wait(f"bucket {number}", got, sent)
    return _program("resnet50_ring", ranks, calls)


def _program(name: str, ranks: int, calls: Calls) -> Program:
    return Program(
        name=f"{name} data {ranks}",
        axes={_DATA: ranks},
        lists=(calls.ops,),
        class_of=np.zeros(ranks, np.int32),
    )
