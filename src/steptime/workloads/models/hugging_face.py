"""Reading the config.json of a Hugging Face model: each family's names of its dimensions."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from steptime.errors import UsageError
from steptime.files import parsed_json
from steptime.nearest import did_you_mean
from steptime.section import Section
from steptime.workloads.models.family import Settings, families
from steptime.workloads.models.transformer import Architecture, Transformer


def read_config(text: str, path: Path) -> Transformer:
    """The model that a configuration describes, named after its file or that file's folder.

    Keys without dimensions are not read. Raises an error for ``reading`` to tell where it is no
    JSON object, and UsageError where its ``model_type`` is not one of the families', or a dimension
    is missing or impossible.
    """
    table: dict[str, Any] = parsed_json(text, dict)
    config = Section({key: one for key, one in table.items() if one is not None}, str(path))
    readers = {kind: read for of in families().values() for kind, read in of.model_types.items()}
    kind = config.text("model_type")
    if kind not in readers:
        mend = did_you_mean(kind, readers) or f"known are {', '.join(readers)}"
        config.refuse("model_type", f"is {kind!r}, whose layers are not known here: {mend}")
    name = path.resolve().parent.name if path.stem == "config" else path.stem
    try:
        return Transformer(
            name=name or kind,
            title=f"a model of the type {kind}",
            source=f"the configuration {path}",
            **readers[kind](config),
        )
    except UsageError as error:
        known = f"{path}:"
        raise UsageError(str(error) if known in str(error) else f"{known} {error}") from None


def decoder(config: Section, architecture: Architecture) -> Settings:
    """The settings of Llama and models with the same keys."""
    if config.flag("mlp_bias", default=False):
        config.refuse("mlp_bias", "is true, and MLPs are known here without: set it to false")
    biased = config.flag("attention_bias", default=False)
    return {
        "layers": config.count("num_hidden_layers"),
        "hidden": config.count("hidden_size"),
        "heads": config.count("num_attention_heads"),
        "kv_heads": optional(config, "num_key_value_heads"),
        "head_width": optional(config, "head_dim"),
        "inner": config.count("intermediate_size"),
        "context": config.count("max_position_embeddings"),
        "vocabulary": config.count("vocab_size"),
        "architecture": replace(
            architecture,
            tied=config.flag("tie_word_embeddings", default=False),
            qkv_biased=architecture.qkv_biased or biased,
            proj_biased=biased,
        ),
    }


def optional(config: Section, key: str) -> int:
    """A whole number of 0 or more; 0 where the key is missing, or null."""
    return config.count(key, least=0) if config.has(key) else 0


def window(config: Section, layers: int, *, used: bool) -> int:
    """The width of the attention window, 0 for the whole row; the same in all layers.

    ``used``: whether there is a window where only its width is given. Raises UsageError where some
    layers have a window and others have none.
    """
    width = optional(config, "sliding_window")
    if not (width and config.flag("use_sliding_window", default=used)):
        return 0
    kinds = config.raw("layer_types")
    if kinds is None:
        first = min(optional(config, "max_window_layers"), layers)
        kinds = ["full_attention"] * first + ["sliding_attention"] * (layers - first)
    if not isinstance(kinds, Sequence) or len(set(map(str, kinds))) != 1:
        config.refuse(
            "sliding_window",
            "is of some layers alone, and a model has the same attention in all of them here: set "
            "use_sliding_window to false to count rows as attended to in full",
        )
    return width if kinds[0] == "sliding_attention" else 0


def experts(config: Section, count: str) -> Settings:
    """The settings of experts with a width of their own, by Qwen's and DeepSeek's keys.

    ``count``: the key of the number of experts.
    """
    return {
        "experts": config.count(count),
        "top_k": config.count("num_experts_per_tok"),
        "expert_inner": config.count("moe_intermediate_size"),
    }


def only(config: Section, key: str, value: int) -> None:
    """Raise UsageError where the value at ``key`` is not the only supported one."""
    if config.has(key) and config.raw(key) != value:
        config.refuse(key, f"is {config.raw(key)!r}, and layers are known here with {value} alone")
