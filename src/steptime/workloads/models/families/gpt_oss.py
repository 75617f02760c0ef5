"""gpt-oss: experts, biases everywhere, attention sinks, and a window in every other layer."""

from dataclasses import replace

from steptime.section import Section
from steptime.workloads.models.families.llama import LLAMA, with_window
from steptime.workloads.models.family import Family, Settings

GPT_OSS = replace(
    LLAMA, qkv_biased=True, proj_biased=True, mlp_biased=True, router_biased=True, sinks=True
)


def _gpt_oss(config: Section) -> Settings:
    return with_window(config, GPT_OSS, every=2) | {
        "experts": config.count("num_local_experts"),
        "top_k": config.count("num_experts_per_tok"),
    }


FAMILY = Family(architecture=GPT_OSS, model_types={"gpt_oss": _gpt_oss})
