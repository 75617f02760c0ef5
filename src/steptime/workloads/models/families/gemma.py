"""Gemma 1, 2 and 3: Llama's blocks with a tied head, from 2 on with a norm behind each half, too.

Its MLPs are gated by GELU and its embeddings are scaled. Layers with a window alternate with those
that attend to all of the row, in Gemma 3 five to one; of that the part for text is read alone.
"""

from dataclasses import replace

from steptime.section import Section
from steptime.workloads.models.families.llama import LLAMA, with_window
from steptime.workloads.models.family import Family, Settings
from steptime.workloads.models.hugging_face import decoder

GEMMA = replace(LLAMA, tied=True, own_arithmetic=True)
GEMMA2 = replace(GEMMA, post_norm=True)
GEMMA3 = replace(GEMMA2, qk_norm=True)


def _gemma(config: Section) -> Settings:
    return decoder(config, GEMMA)


def _gemma2(config: Section) -> Settings:
    return with_window(config, GEMMA2, every=2)


def _gemma3(config: Section) -> Settings:
    given = config.has("sliding_window_pattern")
    return with_window(config, GEMMA3, config.count("sliding_window_pattern") if given else 6)


FAMILY = Family(
    architecture=GEMMA2,
    model_types={"gemma": _gemma, "gemma2": _gemma2, "gemma3_text": _gemma3},
)
