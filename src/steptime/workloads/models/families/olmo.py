"""OLMo 2 and 3: norms behind the halves of a block, and of the queries and keys of all heads."""

from dataclasses import replace

from steptime.section import Section
from steptime.workloads.models.families.llama import LLAMA, with_window
from steptime.workloads.models.family import Family, Settings
from steptime.workloads.models.hugging_face import decoder

OLMO2 = replace(LLAMA, qk_norm_whole=True)


def _olmo2(config: Section) -> Settings:
    return decoder(config, OLMO2)


def _olmo3(config: Section) -> Settings:
    return with_window(config, OLMO2, every=4)


FAMILY = Family(architecture=OLMO2, model_types={"olmo2": _olmo2, "olmo3": _olmo3})
