"""GPT-2, and the similar GPT-3: learned positions, biases everywhere, tied embeddings."""

from dataclasses import replace

from steptime.section import Section
from steptime.workloads.models.family import Base, Family, Settings
from steptime.workloads.models.hugging_face import optional
from steptime.workloads.models.transformer import Architecture

GPT2 = Architecture()


def _gpt2(config: Section) -> Settings:
    return {
        "layers": config.count("n_layer"),
        "hidden": config.count("n_embd"),
        "heads": config.count("n_head"),
        "inner": optional(config, "n_inner"),
        "context": config.count("n_positions"),
        "vocabulary": config.count("vocab_size"),
        "architecture": replace(GPT2, tied=config.flag("tie_word_embeddings", default=True)),
    }


FAMILY = Family(
    architecture=GPT2,
    model_types={"gpt2": _gpt2},
    base=Base(
        name="gpt",
        title="a decoder as GPT-2, by its dimensions",
        architecture=GPT2,
        vocabulary=50257,
        context=2048,
    ),
)
