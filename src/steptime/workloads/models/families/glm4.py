"""GLM-4.5 and 4.6: grouped queries with biases, and DeepSeek's experts with shared ones.

The layer that predicts further tokens (num_nextn_predict_layers) is left out, as DeepSeek-V3's is.
"""

from dataclasses import replace

from steptime.section import Section
from steptime.workloads.models.families.llama import LLAMA
from steptime.workloads.models.family import Family, Settings
from steptime.workloads.models.hugging_face import decoder, shared_experts

GLM4 = replace(LLAMA, router_biased=True)


def _glm4(config: Section) -> Settings:
    normed = config.flag("use_qk_norm", default=False)
    found = decoder(config, replace(GLM4, qk_norm=normed))
    architecture = replace(found["architecture"], proj_biased=False)
    shared = shared_experts(config, "n_routed_experts")
    return found | shared | {"architecture": architecture}


FAMILY = Family(architecture=GLM4, model_types={"glm4_moe": _glm4})
