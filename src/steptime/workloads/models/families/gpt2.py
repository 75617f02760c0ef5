"""GPT-2."""

from functools import partial

from steptime.workloads.models.family import Family
from steptime.workloads.models.transformer import Transformer

_gpt2 = partial(
    Transformer,
    context=1024,
    vocabulary=50257,
    title="a decoder with learned positions, its head tied to the embedding",
    source=(
        "Radford et al., Language Models are Unsupervised Multitask Learners (2019), table 2, "
        "with the heads of the released models"
    ),
)

_SIZES = {
    "gpt2-124M": {"layers": 12, "hidden": 768, "heads": 12},
    "gpt2-355M": {"layers": 24, "hidden": 1024, "heads": 16},
    "gpt2-774M": {"layers": 36, "hidden": 1280, "heads": 20},
    "gpt2-1558M": {"layers": 48, "hidden": 1600, "heads": 25},
}

FAMILY = Family(
    models={name: partial(_gpt2, name=name, **sizes) for name, sizes in _SIZES.items()},
    also={"gpt2": "gpt2-124M", "gpt2-350M": "gpt2-355M", "gpt2-1.5B": "gpt2-1558M"},
)
