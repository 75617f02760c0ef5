"""GPT-NeoX and Pythia: GPT-2's blocks with rotary positions, both halves from one residual."""

from dataclasses import replace

from steptime.section import Section
from steptime.workloads.models.families.gpt2 import GPT2
from steptime.workloads.models.family import Family, Settings
from steptime.workloads.models.hugging_face import decoder

NEOX = replace(GPT2, learned_positions=False, tied=False, dropout=False, own_arithmetic=True)


def _gpt_neox(config: Section) -> Settings:
    found = decoder(config, NEOX)
    alone = replace(found["architecture"], qkv_biased=False, proj_biased=False)
    return found | {"architecture": alone}  # all of its matrices have biases


FAMILY = Family(architecture=NEOX, model_types={"gpt_neox": _gpt_neox})
