"""Llama 2 and 3: rotary positions, RMSNorm, gated MLPs, and a head of its own."""

from functools import partial

from steptime.workloads.models.family import Family
from steptime.workloads.models.transformer import Architecture, Transformer

LLAMA = Architecture(
    fused=False, gated=True, biased=False, learned_positions=False, tied=False, dropout=False
)

_llama = partial(
    Transformer,
    architecture=LLAMA,
    title="a decoder with rotary positions, RMSNorm, gated MLPs and an untied head",
)
_llama2 = partial(
    _llama,
    context=4096,
    vocabulary=32000,
    source="Touvron et al., Llama 2, arXiv 2307.09288, with the MLPs of the released models",
)
_llama3 = partial(
    _llama,
    context=8192,
    vocabulary=128256,
    kv_heads=8,
    source="Grattafiori et al., The Llama 3 Herd of Models, arXiv 2407.21783, table 3",
)

FAMILY = Family(
    models={
        made.keywords["name"]: made
        for made in (
            partial(_llama2, name="llama2-7B", layers=32, hidden=4096, heads=32, inner=11008),
            partial(_llama2, name="llama2-13B", layers=40, hidden=5120, heads=40, inner=13824),
            partial(
                _llama2,
                name="llama2-70B",
                layers=80,
                hidden=8192,
                heads=64,
                kv_heads=8,
                inner=28672,
            ),
            partial(_llama3, name="llama3-8B", layers=32, hidden=4096, heads=32, inner=14336),
            partial(_llama3, name="llama3-70B", layers=80, hidden=8192, heads=64, inner=28672),
        )
    },
)
