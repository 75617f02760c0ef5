"""Llama, Mistral and Mixtral: rotary positions, RMSNorm, gated MLPs, and a head of its own."""

from steptime.section import Section
from steptime.workloads.models.family import Base, Family, Settings
from steptime.workloads.models.hugging_face import decoder, window
from steptime.workloads.models.transformer import Architecture

LLAMA = Architecture(
    fused=False, gated=True, biased=False, learned_positions=False, tied=False, dropout=False
)


def _llama(config: Section) -> Settings:
    return decoder(config, LLAMA)


def _mistral(config: Section) -> Settings:
    found = decoder(config, LLAMA)
    return found | {"window": window(config, found["layers"], used=True)}


def _mixtral(config: Section) -> Settings:
    return _mistral(config) | {
        "experts": config.count("num_local_experts"),
        "top_k": config.count("num_experts_per_tok"),
    }


FAMILY = Family(
    architecture=LLAMA,
    model_types={"llama": _llama, "mistral": _mistral, "mixtral": _mixtral},
    base=Base(
        name="llama",
        title="a decoder as Llama, by its dimensions",
        architecture=LLAMA,
        vocabulary=32000,
        context=4096,
    ),
)
