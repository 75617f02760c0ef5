"""GPT-3 175B: pipeline and data parallelism, with tensor (4 ways) or expert (16 ways)."""

from dataclasses import replace

from steptime.program import Program
from steptime.workloads.compat.calls import collective
from steptime.workloads.compat.gpipe import (
    ACTIVATION,
    DEFAULT_STAGES,
    HIDDEN,
    ONE_STEP_DEFECTS,
    STEP_DEFECTS,
    Layer,
    one_step,
    whole_step,
)
from steptime.workloads.compat.layerwise import DATA
from steptime.workloads.compat.original import original

_TENSOR, _TENSOR_RANKS = "tensor", 4
_EXPERT, _EXPERT_RANKS = "expert", 16

_LAYER = Layer(
    name="gpt3",
    axis=_TENSOR,
    ways=_TENSOR_RANKS,
    forward_us=15_915,
    backward_us=31_830,
    operator=collective("activations", "all_reduce", (_TENSOR,), ACTIVATION, stream="tensor"),
    sums=(
        collective(
            "gradients", "all_reduce", (DATA,), 12 * HIDDEN**2 // _TENSOR_RANKS, stream="data"
        ),
    ),
)

_MOE_LAYER = Layer(
    name="gpt3_moe",
    axis=_EXPERT,
    ways=_EXPERT_RANKS,
    forward_us=22_367 + 41_293 // _EXPERT_RANKS,  # attention, and a part of the MLP
    backward_us=44_734 + 82_586 // _EXPERT_RANKS,
    operator=collective("tokens", "all_to_all", (_EXPERT,), ACTIVATION),
    sums=(
        collective("experts", "all_reduce", (DATA,), 8 * HIDDEN**2 // _EXPERT_RANKS, stream="data"),
        collective("attention", "all_reduce", (_EXPERT, DATA), 4 * HIDDEN**2, stream="data"),
    ),
)


@original(
    warm_up=8,
    runs=128,
    defects=(
        "The output calls it 1F1B.",
        "The total of parameters is cut down to whole billions.",
        *STEP_DEFECTS,
    ),
)
def gpt3(*, ranks: int, stages: int = DEFAULT_STAGES, scale: int | None = None) -> Program:
    """As many layers as stages; ``scale`` times as many micro-batches or, without it, 192.

    The 4 tensor ranks of a stage are ``stages`` ranks apart, so neighbours in a pipeline are next
    to each other.
    """
    return whole_step(_LAYER, ranks=ranks, stages=stages, scale=scale)


@original(warm_up=0, runs=1, defects=ONE_STEP_DEFECTS)
def gpt3_one_pipe_step(*, ranks: int, stages: int = DEFAULT_STAGES) -> Program:
    """One micro-batch: even stages forward, odd ones backward, each pair exchanging the results."""
    layer = replace(_LAYER, name="gpt3_one_pipe_step")
    return one_step(layer, ranks=ranks, stages=stages)


@original(
    warm_up=4,
    runs=128,
    defects=(
        "The MLP is one 16th as much work on each of 16 ranks, as a split layer's: no token is "
        "routed and no expert holds a whole MLP.",
        *STEP_DEFECTS,
    ),
)
def gpt3_moe(*, ranks: int, stages: int = DEFAULT_STAGES, scale: int | None = None) -> Program:
    """As many layers as stages; ``scale`` times as many micro-batches or, without it, 192.

    16 ranks of a stage, each ``stages`` ranks after the last, exchange tokens.
    """
    return whole_step(_MOE_LAYER, ranks=ranks, stages=stages, scale=scale)


@original(warm_up=0, runs=1, defects=ONE_STEP_DEFECTS)
def gpt3_moe_one_pipe_step(*, ranks: int, stages: int = DEFAULT_STAGES) -> Program:
    """One micro-batch: even stages forward, odd ones backward, each pair exchanging the results."""
    layer = replace(_MOE_LAYER, name="gpt3_moe_one_pipe_step")
    return one_step(layer, ranks=ranks, stages=stages)
