"""Qwen3: Llama's blocks with a norm of every head's queries and keys."""

from dataclasses import replace

from steptime.section import Section
from steptime.workloads.models.families.llama import LLAMA
from steptime.workloads.models.families.qwen2 import qwen, qwen_of_experts
from steptime.workloads.models.family import Family, Settings

QWEN3 = replace(LLAMA, qk_norm=True)


def _qwen3(config: Section) -> Settings:
    return qwen(config, QWEN3)


def _qwen3_moe(config: Section) -> Settings:
    return qwen_of_experts(config, QWEN3)


FAMILY = Family(architecture=QWEN3, model_types={"qwen3": _qwen3, "qwen3_moe": _qwen3_moe})
