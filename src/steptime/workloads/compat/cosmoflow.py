"""CosmoFlow: a 3D convolutional network, split in space over 4 ranks and replicated beyond."""

import numpy as np

from steptime.program import Collective, Program
from steptime.workloads.compat.calls import Calls, collective, recv, send
from steptime.workloads.compat.original import SLEEPS, check_multiple, original

_X, _Y, _DATA = "x", "y", "data"
_SHARDS = 4

_FORWARD_US = (6567, 13135, 6567, 3283, 1641, 5, 3, 1)  # of 5 convolutions and 3 dense layers
_BACKWARD_US = (2, 6, 10, 3283, 6567, 13135, 26270, 13135)  # from the last layer to the first
_HALOS = (2097152, 1048576, 524288, 262144)  # elements to a neighbour, before convolutions 2 to 5
_DENSE = (65536, 256, 128)  # elements of a rank, before each dense layer
_DENSE_PARAMETERS = 1_050_737
_CONVOLUTIONS = (3539456, 884992, 221312, 55360, 3488)  # parameters, from the last to the first


def _swap(calls: Calls, name: str, elements: int) -> None:
    """Exchange halos with both neighbours."""
    axes = (_X, _Y)
    posted = [calls.post(send(f"send along {axis}", axis, 1, elements)) for axis in axes]
    posted += [calls.post(recv(f"receive along {axis}", axis, 1, elements)) for axis in axes]
    calls.wait(name, *posted)


def _split(name: str, kind: str, elements: int) -> Collective:
    """A collective of the 4 ranks that share samples, of ``elements`` elements a rank."""
    return collective(name, kind, (_X, _Y), elements * _SHARDS)


def _forward(calls: Calls) -> None:
    for layer, duration in enumerate(_FORWARD_US):
        if 1 <= layer <= 4:
            _swap(calls, f"halo {layer}", _HALOS[layer - 1])
        elif layer > 4:
            calls.call(_split(f"gather {layer}", "all_gather", _DENSE[layer - 5]))
        calls.compute(f"forward {layer}", duration)


def _backward(calls: Calls) -> None:
    sums = []
    for step, duration in enumerate(_BACKWARD_US):
        layer = 7 - step
        calls.compute(f"backward {layer}", duration)
        if step < 3:
            calls.call(_split(f"scatter {layer}", "reduce_scatter", _DENSE[2 - step]))
        elif step < 7:
            _swap(calls, f"halo {layer}", _HALOS[6 - step] // 2)
        if step == 2:
            dense = ("dense gradients", "all_reduce", (_DATA,), _DENSE_PARAMETERS)
            sums.append(calls.post(collective(*dense, stream="dense")))
        elif step > 2:
            name, everyone = f"gradients {layer}", (_X, _Y, _DATA)
            total = collective(name, "all_reduce", everyone, _CONVOLUTIONS[step - 3])
            sums.append(calls.post(total))
    calls.wait("all gradients", *sums)


@original(
    warm_up=8,
    runs=128,
    defects=(
        "The halos of forward are faces of what a convolution leaves before it is pooled, 4 times "
        "what the next one needs; those of backward are right, of gradients of outputs; neither "
        "has corners.",
        "The group of 4 and the 8 samples of its ranks are fixed.",
        SLEEPS,
    ),
)
def cosmoflow(*, ranks: int) -> Program:
    """Halos before convolutions, gathers before dense layers, and gradients behind backward."""
    check_multiple("cosmoflow", ranks, _SHARDS)
    calls = Calls()
    _forward(calls)
    _backward(calls)
    replicas = ranks // _SHARDS
    return Program(
        name=f"cosmoflow 2 × 2 × data {replicas}",
        axes={_X: 2, _Y: 2, _DATA: replicas},
        lists=(calls.ops,),
        class_of=np.zeros(ranks, np.int32),
    )
