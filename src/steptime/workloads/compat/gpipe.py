"""The steps that both GPT-3 proxies share: one layer a stage, and its ranks' collectives."""

from dataclasses import dataclass

import numpy as np

from steptime.arrays import Ints
from steptime.errors import UsageError
from steptime.program import PIPELINE, Collective, Op, Program
from steptime.workloads.compat.calls import Calls, Places, recv, send
from steptime.workloads.compat.layerwise import DATA, FIRST, LAST, kinds_of_stages
from steptime.workloads.compat.original import SLEEPS, check_multiple, check_stages

HIDDEN, CONTEXT = 12288, 2048
ACTIVATION = CONTEXT * HIDDEN
"""Elements of a micro-batch of one row between two layers."""

DEFAULT_STAGES = 96
DEFAULT_MICRO_BATCHES = 192

STEP_DEFECTS = (
    "The activation is sent on before the ranks of the stage have put it together, which is the "
    "wrong way round.",
    "The last sends of a direction are never waited for.",
    "All forwards come before all backwards, as in GPipe, where 1F1B would keep fewer activations.",
    "The gradients of the embedding are left out.",
    "Gradients are summed over the replicas even where there is one, hidden behind nothing.",
    "Given its stages alone it runs 192 micro-batches, not twice the stages.",
    "One stage sends to a rank that does not exist, and ranks that do not divide abort it with a "
    "stack trace (steptime refuses both).",
    SLEEPS,
)
ONE_STEP_DEFECTS = (
    "Stages exchange in pairs and none has two neighbours, as it would within a pipeline.",
    "Gradients are not summed.",
    "It is run once, without a warm-up.",
    SLEEPS,
)


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer on the ranks of a stage, which lie along ``axis``.

    ``forward_us`` and ``backward_us``: microseconds of computing a micro-batch. ``operator``: the
    collective that they call twice a micro-batch and direction. ``sums``: the collectives that end
    a step.
    """

    name: str
    axis: str
    ways: int
    forward_us: int
    backward_us: int
    operator: Collective
    sums: tuple[Collective, ...]


def micro_batches_of(stages: int, scale: int | None) -> int:
    """How many micro-batches a step has; without a ``scale``, the default number."""
    return DEFAULT_MICRO_BATCHES if scale is None else stages * scale


def whole_step(layer: Layer, *, ranks: int, stages: int, scale: int | None) -> Program:
    """One step, all forwards before all backwards.

    Raises UsageError where the stages are fewer than 2 or do not divide the ranks as they must.
    """
    check_stages(layer.name, stages)
    micro_batches = micro_batches_of(stages, scale)
    kinds, class_of = kinds_of_stages(ranks, stages)
    lists = tuple(_ops(layer, kind, micro_batches) for kind in kinds)
    return _program(layer, ranks, stages, lists, class_of)


def one_step(layer: Layer, *, ranks: int, stages: int) -> Program:
    """A step in which even stages run a micro-batch forward while odd ones run one backward.

    Raises UsageError where the stages are odd or do not divide the ranks as they must.
    """
    if stages % 2:
        raise UsageError(
            f"{layer.name} needs an even number of stages, not {stages}: the nearest is "
            f"{stages + 1}"
        )
    lists = (
        _exchange(layer, "forward", layer.forward_us, 1),
        _exchange(layer, "backward", layer.backward_us, -1),
    )
    odd = (np.arange(ranks) % stages % 2).astype(np.int32)
    return _program(layer, ranks, stages, lists, odd)


def _program(
    layer: Layer,
    ranks: int,
    stages: int,
    lists: tuple[tuple[Op, ...], ...],
    class_of: Ints,
) -> Program:
    block = stages * layer.ways
    check_multiple(f"{layer.name} with {stages} stages", ranks, block)
    axes = {PIPELINE: stages, layer.axis: layer.ways, DATA: ranks // block}
    shape = " × ".join(f"{axis} {size}" for axis, size in axes.items())
    return Program(name=f"{layer.name} {shape}", axes=axes, lists=lists, class_of=class_of)


def _ops(layer: Layer, kind: int, micro_batches: int) -> tuple[Op, ...]:
    calls = Calls()
    for tag, (direction, by, duration) in enumerate(
        (("forward", 1, layer.forward_us), ("backward", -1, layer.backward_us))
    ):
        enters, leaves = (FIRST, LAST) if by > 0 else (LAST, FIRST)
        sent: Places = ()
        for number in range(micro_batches):
            name = f"{direction} {number}"
            if kind != enters:
                got = recv(f"receive {name}", PIPELINE, -by, ACTIVATION, tag=tag)
                calls.wait(got.name, calls.post(got))
            if sent:
                calls.wait(f"send {direction} {number - 1}", sent)
            calls.compute(name, duration)
            if kind != leaves:
                sent = calls.post(send(f"send {name}", PIPELINE, by, ACTIVATION, tag=tag))
            for _ in range(2):
                calls.call(layer.operator)
    for total in layer.sums:
        calls.call(total)
    return calls.ops


def _exchange(layer: Layer, direction: str, duration: int, by: int) -> tuple[Op, ...]:
    calls = Calls()
    got = calls.post(recv("receive", PIPELINE, by, ACTIVATION))
    calls.compute(direction, duration)
    for _ in range(2):
        calls.call(layer.operator)
    sent = calls.post(send("send", PIPELINE, by, ACTIVATION))
    calls.wait("both", got, sent)
    return calls.ops
