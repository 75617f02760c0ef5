"""Mixtral: Llama's blocks with eight MLPs, of which each token goes through two."""

from functools import partial

from steptime.workloads.models.families.llama import LLAMA
from steptime.workloads.models.family import Family
from steptime.workloads.models.transformer import Transformer

_mixtral = partial(
    Transformer,
    layers=32,
    hidden=4096,
    heads=32,
    kv_heads=8,
    inner=14336,
    experts=8,
    top_k=2,
    context=32768,
    vocabulary=32000,
    architecture=LLAMA,
    title="a decoder whose MLPs are mixtures of experts",
    source="Jiang et al., Mixtral of Experts, arXiv 2401.04088, table 1",
)

FAMILY = Family(models={"mixtral-8x7B": partial(_mixtral, name="mixtral-8x7B")})
