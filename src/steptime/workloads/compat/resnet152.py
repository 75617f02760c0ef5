"""ResNet-152: data parallelism, gradients summed behind backward."""

from types import MappingProxyType

import numpy as np

from steptime.errors import UsageError
from steptime.program import Program
from steptime.workloads.compat.calls import Calls, collective
from steptime.workloads.compat.original import SLEEPS, original

_DATA = "data"
_BUCKETS = (  # elements
    6511592,
    6567936,
    5905920,
    6113280,
    6176256,
    6112768,
    6176256,
    6112768,
    5321216,
    5194816,
)
_GLOBAL_BATCH = 32768
_US = MappingProxyType(  # forward, and backward of a bucket, by the batch of a rank
    {128: (119_000, 23_800), 64: (63_000, 12_600), 32: (36_000, 7_200), 16: (27_667, 5_533)}
)

_DEFECTS = ("Requests are polled from bucket 2 on only, so none moves on before.", SLEEPS)


def _step(name: str, ranks: int, batch: int) -> Program:
    forward, backward = _US[batch]
    calls = Calls()
    calls.compute("forward", forward)
    sums = []
    for number, elements in enumerate(_BUCKETS):
        calls.compute(f"backward {number}", backward)
        bucket = collective(f"bucket {number}", "all_reduce", (_DATA,), elements)
        sums.append(calls.post(bucket))
    calls.wait("all buckets", *sums)
    return Program(
        name=f"{name} data {ranks}",
        axes={_DATA: ranks},
        lists=(calls.ops,),
        class_of=np.zeros(ranks, np.int32),
    )


@original(warm_up=8, runs=128, defects=_DEFECTS)
def resnet152(*, ranks: int) -> Program:
    """A batch of 128 on each rank; 10 buckets are summed while the next is computed."""
    return _step("resnet152", ranks, 128)


@original(
    warm_up=8,
    runs=128,
    defects=(
        "Other numbers of ranks end it without an end of MPI (steptime refuses them).",
        *_DEFECTS,
    ),
)
def resnet152_scal(*, ranks: int) -> Program:
    """A batch of 32768 shared out among 256, 512, 1024 or 2048 ranks."""
    sizes = sorted(_GLOBAL_BATCH // batch for batch in _US)
    if ranks not in sizes:
        raise UsageError(
            f"resnet152_scal has times for {', '.join(map(str, sizes))} ranks alone, not {ranks}: "
            f"the nearest is {min(sizes, key=lambda size: abs(size - ranks))}"
        )
    return _step("resnet152_scal", ranks, _GLOBAL_BATCH // ranks)
