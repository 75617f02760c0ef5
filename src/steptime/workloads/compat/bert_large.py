"""BERT-large: pipeline and data parallelism, communication alone."""

from steptime.program import Program
from steptime.workloads.compat.layerwise import DEFECTS, Layers, layerwise
from steptime.workloads.compat.original import original

_HIDDEN, _VOCABULARY, _CONTEXT, _TYPES = 1024, 30522, 512, 2
_ROWS, _TOKENS = 8, 128
_DENSE, _NORM = _HIDDEN**2 + _HIDDEN, 2 * _HIDDEN
_BLOCK = 12 * _HIDDEN**2 + 13 * _HIDDEN
_WORDS = _DENSE + _NORM + _VOCABULARY * (_HIDDEN + 1)  # the head that predicts masked words
_SENTENCES = _DENSE + 2 * (_HIDDEN + 1)  # the pooler and the head that says which follows

BERT_LARGE = Layers(
    name="bert_large",
    activation=_ROWS * _TOKENS * _HIDDEN + _HIDDEN,
    first=(_VOCABULARY + _CONTEXT + _TYPES) * _HIDDEN + _NORM + _BLOCK,
    middle=_BLOCK,
    last=_BLOCK + _WORDS + _SENTENCES,
)


@original(
    warm_up=10,
    runs=256,
    defects=(
        f"An activation message has {_HIDDEN} elements more than its "
        f"{_ROWS} rows of {_TOKENS} tokens.",
        "The head that predicts words is not tied to the embedding, as BERT ties it.",
        *DEFECTS,
    ),
)
def bert_large(*, ranks: int, layers: int = 24, stages: int = 4, micro_batches: int = 8) -> Program:
    """All forwards, all backwards, then a blocking sum for each layer where there are replicas."""
    return layerwise(
        BERT_LARGE, ranks=ranks, layers=layers, stages=stages, micro_batches=micro_batches
    )
