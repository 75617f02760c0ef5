"""gpt-oss: experts, biases everywhere, attention sinks, and a window in every other layer."""

from dataclasses import replace

from steptime.section import Section
from steptime.workloads.models.families.llama import LLAMA, with_window
from steptime.workloads.models.family import Family, Settings
from steptime.workloads.models.hugging_face import local_experts

GPT_OSS = replace(
    LLAMA, qkv_biased=True, proj_biased=True, mlp_biased=True, router_biased=True, sinks=True
)


def _gpt_oss(config: Section) -> Settings:
    return with_window(config, GPT_OSS, every=2) | local_experts(config)


FAMILY = Family(architecture=GPT_OSS, model_types={"gpt_oss": _gpt_oss})
