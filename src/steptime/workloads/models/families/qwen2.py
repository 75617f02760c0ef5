"""Qwen2 and 2.5: Llama's blocks with biases on queries, keys and values."""

from dataclasses import replace

from steptime.section import Section
from steptime.workloads.models.families.llama import LLAMA
from steptime.workloads.models.family import Family, Settings
from steptime.workloads.models.hugging_face import decoder, experts, only, window
from steptime.workloads.models.transformer import Architecture

QWEN2 = replace(LLAMA, qkv_biased=True)


def qwen(config: Section, architecture: Architecture) -> Settings:
    """A Qwen that has no experts."""
    found = decoder(config, architecture)
    return found | window(config, found["layers"], used=False)


def qwen_of_experts(config: Section, architecture: Architecture) -> Settings:
    """A Qwen with experts in all layers but the first few."""
    only(config, "decoder_sparse_step", 1)
    dense = config.raw("mlp_only_layers") or []
    if dense != list(range(len(dense))):
        config.refuse("mlp_only_layers", f"is {dense!r}: only the first layers, [0, 1, …], can be")
    found = experts(config, "num_experts")
    if not dense:  # intermediate_size would be of a dense layer
        found = {**found, "inner": found["expert_inner"], "expert_inner": 0}
    return qwen(config, architecture) | found | {"dense_layers": len(dense)}


def _qwen2(config: Section) -> Settings:
    return qwen(config, QWEN2)


def _qwen2_moe(config: Section) -> Settings:
    shared = {"shared_inner": config.count("shared_expert_intermediate_size")}
    return qwen_of_experts(config, replace(QWEN2, shared_gated=True)) | shared


FAMILY = Family(architecture=QWEN2, model_types={"qwen2": _qwen2, "qwen2_moe": _qwen2_moe})
