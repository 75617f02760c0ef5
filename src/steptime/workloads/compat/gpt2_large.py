"""GPT-2 "large": pipeline and data parallelism, communication alone."""

from steptime.program import Program
from steptime.workloads.compat.layerwise import DEFECTS, Layers, layerwise
from steptime.workloads.compat.original import original

_HIDDEN, _VOCABULARY, _CONTEXT, _TOKENS = 1280, 50257, 1024, 632
_BLOCK = 12 * _HIDDEN**2 + 13 * _HIDDEN

GPT2_LARGE = Layers(
    name="gpt2_large",
    activation=_TOKENS * _HIDDEN,
    first=(_VOCABULARY + _CONTEXT) * _HIDDEN + _BLOCK,
    middle=_BLOCK,
    last=_BLOCK + _VOCABULARY * _HIDDEN + 2 * _HIDDEN,
)


@original(
    warm_up=10,
    runs=256,
    defects=(
        "The model has 48 layers where GPT-2 large has 36, and a head of its own where GPT-2 ties "
        "it to the embedding.",
        f"A micro-batch is {_TOKENS} tokens where GPT-2 has a context of {_CONTEXT}.",
        "The total of parameters is held in 32 bits: it is negative from 103 layers on.",
        *DEFECTS,
    ),
)
def gpt2_large(*, ranks: int, layers: int = 48, stages: int = 4, micro_batches: int = 8) -> Program:
    """All forwards, all backwards, then a blocking sum for each layer where there are replicas."""
    return layerwise(
        GPT2_LARGE, ranks=ranks, layers=layers, stages=stages, micro_batches=micro_batches
    )
