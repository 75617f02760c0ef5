"""DeepSeek-V2 and V3, and Kimi-K2 as V3: latent attention, experts and shared experts.

V3's prediction of further tokens (num_nextn_predict_layers) is left out, as it is of its published
671 B parameters.
"""

from dataclasses import replace

from steptime.section import Section
from steptime.workloads.models.families.llama import LLAMA
from steptime.workloads.models.family import Family, Settings
from steptime.workloads.models.hugging_face import decoder, only, optional, shared_experts
from steptime.workloads.models.transformer import Latent

V3 = replace(LLAMA, router_biased=True)


def _deepseek_v2(config: Section) -> Settings:
    only(config, "moe_layer_freq", 1)
    found = decoder(config, LLAMA) | shared_experts(config, "n_routed_experts")
    latent = Latent(
        query_rank=optional(config, "q_lora_rank"),
        kv_rank=config.count("kv_lora_rank"),
        nope_width=config.count("qk_nope_head_dim"),
        rope_width=config.count("qk_rope_head_dim"),
        value_width=config.count("v_head_dim"),
    )
    return found | {"head_width": 0, "latent": latent}


def _deepseek_v3(config: Section) -> Settings:
    found = _deepseek_v2(config)
    return found | {"architecture": replace(found["architecture"], router_biased=True)}


FAMILY = Family(
    architecture=V3,
    model_types={
        "deepseek_v2": _deepseek_v2,
        "deepseek_v3": _deepseek_v3,
        "kimi_k2": _deepseek_v3,
    },
)
