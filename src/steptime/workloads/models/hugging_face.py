"""Reading the config.json of a Hugging Face model: each family's names of its dimensions."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from steptime.errors import UsageError
from steptime.files import parsed_json
from steptime.nearest import did_you_mean
from steptime.section import Section
from steptime.workloads.models.family import Settings, families
from steptime.workloads.models.transformer import Architecture, Transformer

_KINDS = ("sliding_attention", "full_attention")


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
        if isinstance(config.raw("text_config"), dict):
            mend = "save what its text_config holds as a file, to count its part for text"
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
            tied=config.flag("tie_word_embeddings", default=architecture.tied),
            qkv_biased=architecture.qkv_biased or biased,
            proj_biased=config.flag("attention_out_bias", default=biased),
            mlp_biased=architecture.mlp_biased or config.flag("mlp_bias", default=False),
        ),
    }


def optional(config: Section, key: str) -> int:
    """A whole number of 0 or more; 0 where the key is missing, or null."""
    return config.count(key, least=0) if config.has(key) else 0


def window(config: Section, layers: int, *, used: bool, every: int = 0) -> Settings:
    """The settings of a window, none for the whole row: its width, and which layers have none.

    ``used``: whether there is a window where only its width is given. ``every``: of so many layers
    the last one has none, where the configuration does not list them. Raises UsageError where a
    layer's attention is neither of the whole row nor of a window.
    """
    width = optional(config, "sliding_window")
    if not (width and config.flag("use_sliding_window", default=used)):
        return {}
    kinds = config.raw("layer_types")
    if kinds is None:
        first = 0 if every else min(optional(config, "max_window_layers"), layers)
        last = every or layers + 1
        kinds = [_KINDS[n < first or (n + 1) % last == 0] for n in range(layers)]
    known = isinstance(kinds, list) and all(kind in _KINDS for kind in kinds)
    if not known or len(kinds) != layers:
        config.refuse(
            "layer_types", f"is not one of {' and '.join(_KINDS)} for each of {layers} layers"
        )
    whole = tuple(n for n, kind in enumerate(kinds) if kind == _KINDS[True])
    return {} if len(whole) == layers else {"window": width, "whole_layers": whole}


def experts(config: Section, count: str) -> Settings:
    """The settings of experts with a width of their own, by Qwen's and DeepSeek's keys.

    ``count``: the key of the number of experts.
    """
    return {
        "experts": config.count(count),
        "top_k": config.count("num_experts_per_tok"),
        "expert_inner": config.count("moe_intermediate_size"),
    }


def shared_experts(config: Section, count: str) -> Settings:
    """The same with experts that every token goes through, and first layers without, by DeepSeek's.

    Each shared expert is as wide as the others.
    """
    found = experts(config, count)
    return found | {
        "shared_inner": optional(config, "n_shared_experts") * found["expert_inner"],
        "dense_layers": optional(config, "first_k_dense_replace"),
    }


def local_experts(config: Section) -> Settings:
    """The settings of experts as wide as an MLP, by Mixtral's keys."""
    return {
        "experts": config.count("num_local_experts"),
        "top_k": config.count("num_experts_per_tok"),
    }


def only(config: Section, key: str, value: int) -> None:
    """Raise UsageError where the value at ``key`` is not the only supported one."""
    if config.has(key) and config.raw(key) != value:
        config.refuse(key, f"is {config.raw(key)!r}, and layers are known here with {value} alone")
