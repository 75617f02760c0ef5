"""BERT, with both of its pre-training heads."""

from functools import partial

from steptime.workloads.models.family import Family
from steptime.workloads.models.transformer import Architecture, Transformer

_bert = partial(
    Transformer,
    context=512,
    vocabulary=30522,
    architecture=Architecture(fused=False, masked=True),
    title="an encoder with post-norm blocks and both pre-training heads",
    source=(
        "Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers, arXiv 1810.04805, "
        "section 3, with the vocabulary of the released uncased model"
    ),
)

FAMILY = Family(
    models={"bert-large": partial(_bert, name="bert-large", layers=24, hidden=1024, heads=16)},
    also={"bert": "bert-large"},
)
