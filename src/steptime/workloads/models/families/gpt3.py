"""GPT-3: GPT-2 but for attention that is sparse in every other block, here counted as dense."""

from functools import partial

from steptime.workloads.models.family import Family
from steptime.workloads.models.transformer import Transformer

_gpt3 = partial(
    Transformer,
    context=2048,
    vocabulary=50257,
    title="a decoder as GPT-2, all of its attention counted as dense",
    source="Brown et al., Language Models are Few-Shot Learners, arXiv 2005.14165, table 2.1",
)

# The table gives 1.3B 24 heads of 128 and 13B a width of 5140, which contradict themselves: heads
# of 128 make them 16 and 5120.
_SIZES = {
    "gpt3-125M": {"layers": 12, "hidden": 768, "heads": 12},
    "gpt3-350M": {"layers": 24, "hidden": 1024, "heads": 16},
    "gpt3-760M": {"layers": 24, "hidden": 1536, "heads": 16},
    "gpt3-1.3B": {"layers": 24, "hidden": 2048, "heads": 16},
    "gpt3-2.7B": {"layers": 32, "hidden": 2560, "heads": 32},
    "gpt3-6.7B": {"layers": 32, "hidden": 4096, "heads": 32},
    "gpt3-13B": {"layers": 40, "hidden": 5120, "heads": 40},
    "gpt3-175B": {"layers": 96, "hidden": 12288, "heads": 96},
}

FAMILY = Family(models={name: partial(_gpt3, name=name, **of) for name, of in _SIZES.items()})
