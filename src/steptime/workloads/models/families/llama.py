"""Llama and its kin: rotary positions, RMSNorm, gated MLPs, and a head of its own.

Of what a step takes nothing else differs in Mistral, Mixtral, Phi-3 (one matrix for queries, keys
and values, positions in a part of them), SmolLM3 (no positions in every fourth layer), Granite
(factors at residuals) and Seed-OSS.
"""

from dataclasses import replace

from steptime.section import Section
from steptime.workloads.models.family import Base, Family, Settings
from steptime.workloads.models.hugging_face import decoder, local_experts, window
from steptime.workloads.models.transformer import Architecture

LLAMA = Architecture(
    fused=False, gated=True, biased=False, learned_positions=False, tied=False, dropout=False
)
_KIN = replace(LLAMA, own_arithmetic=True)


def with_window(config: Section, architecture: Architecture, every: int = 0) -> Settings:
    """A decoder with a window wherever its width is given; ``every`` as ``window`` has it."""
    found = decoder(config, architecture)
    return found | window(config, found["layers"], used=True, every=every)


def _llama(config: Section) -> Settings:
    return decoder(config, LLAMA)


def _mistral(config: Section) -> Settings:
    return with_window(config, LLAMA)


def _phi3(config: Section) -> Settings:
    return with_window(config, replace(_KIN, fused=True))


def _granite(config: Section) -> Settings:
    return decoder(config, _KIN)


def _smollm3(config: Section) -> Settings:
    return decoder(config, replace(_KIN, tied=True))  # unless its configuration says otherwise


def _mixtral(config: Section) -> Settings:
    return _mistral(config) | local_experts(config)


FAMILY = Family(
    architecture=LLAMA,
    model_types={
        "llama": _llama,
        "mistral": _mistral,
        "mixtral": _mixtral,
        "phi3": _phi3,
        "smollm3": _smollm3,
        "granite": _granite,
        "seed_oss": _llama,
    },
    base=Base(
        name="llama",
        title="a decoder as Llama, by its dimensions",
        architecture=LLAMA,
        vocabulary=32000,
        context=4096,
    ),
)
