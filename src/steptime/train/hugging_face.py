"""Weights as Hugging Face's transformers keeps them: GPT-2's, Llama's and Mixtral's.

They are a folder of a config.json and of one or several files of safetensors. Names and layouts
are those of ``models/gpt2/modeling_gpt2.py``, whose Conv1D keeps a matrix by columns, and of
``models/llama/modeling_llama.py``; the pairs of channels that rotary positions turn are ours too
(``train.model.attention.rotated``). What is read is checked before ranks start, without torch.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steptime.errors import UsageError
from steptime.files import bounded_text, checked, parsed_json, reading, write_json
from steptime.section import Section
from steptime.train.config import named_by_blocks, untrained
from steptime.train.safetensors import Stored, read_stored, read_tensor, write_safetensors
from steptime.workloads.models import Transformer, model_named

if TYPE_CHECKING:
    from torch import Tensor

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
_INDEX = "model.safetensors.index.json"
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
_MOST_INDEX = 1 << 26  # bytes

_GPT2_BLOCK = {
    "ln1": "ln_1",
    "attention.qkv": "attn.c_attn",
    "attention.proj": "attn.c_proj",
    "ln2": "ln_2",
    "mlp.fc": "mlp.c_fc",
    "mlp.proj": "mlp.c_proj",
}
_LLAMA_BLOCK = {
    "ln1": "input_layernorm",
    "attention.q": "self_attn.q_proj",
    "attention.k": "self_attn.k_proj",
    "attention.v": "self_attn.v_proj",
    "attention.proj": "self_attn.o_proj",
    "ln2": "post_attention_layernorm",
    "mlp.gate": "mlp.gate_proj",
    "mlp.fc": "mlp.up_proj",
    "mlp.proj": "mlp.down_proj",
    "mlp.router": "block_sparse_moe.gate",
}
_EXPERT = re.compile(r"mlp\.experts\.(\d+)\.(\w+)")
_OF_EXPERT = {"gate": "w1", "fc": "w3", "proj": "w2"}  # of Mixtral
_BUFFERS = (".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq")
"""What old files hold beside weights: the causal mask, and the angles of rotary positions."""


@dataclass(frozen=True)
class _Names:
    """How models are named: the whole model, its blocks and what is in them, its ends."""

    whole: str
    blocks: str
    block: Mapping[str, str]
    ends: Mapping[str, str]


_GPT2 = _Names(
    whole="transformer.",
    blocks="h",
    block=_GPT2_BLOCK,
    ends={"embedding.wte": "wte", "embedding.wpe": "wpe", "head.ln": "ln_f"},
)
_LLAMA = _Names(
    whole="model.",
    blocks="layers",
    block=_LLAMA_BLOCK,
    ends={"embedding.wte": "embed_tokens", "head.ln": "norm"},
)
_HEAD = "lm_head.weight"


@dataclass(frozen=True)
class HuggingFace:
    """The weights in a folder: where each lies, by our names of the model's tensors."""

    path: Path
    config: Transformer
    stored: Mapping[str, Stored]

    def tensor(self, name: str) -> Tensor:
        """A tensor of the whole model, laid out as ours with the usual padding of words by 0."""
        found = read_tensor(self.stored[name])
        if _by_columns(self.config, name):
            found = found.T
        wanted = _shapes(self.config.padded())[name]
        if tuple(found.shape) == wanted:
            return found
        padded = found.new_zeros(wanted)
        padded[: len(found)] = found
        return padded


def is_hugging_face(path: Path) -> bool:
    """Whether a path is that of a folder with a config.json, or of a safetensors file."""
    return (path / CONFIG).is_file() if path.is_dir() else path.suffix == ".safetensors"


def read_hugging_face(path: Path) -> HuggingFace:
    """The model in a folder, or in a safetensors file beside its config.json; nothing is loaded.

    Raises UsageError where a file is missing or damaged, the model has what cannot be trained here
    or other tensors than its config.json asks for, or its weights are a pickle.
    """
    folder = path if path.is_dir() else path.parent
    if not (folder / CONFIG).is_file():
        raise UsageError(
            f"{path} has no {CONFIG} beside it, which tells the model's dimensions: copy it there"
        )
    config = read_dimensions(folder / CONFIG)
    found = _files(folder) if path.is_dir() else read_stored(path)[0]
    return HuggingFace(path, config, _ours(path, config, found))


def read_dimensions(path: Path) -> Transformer:
    """The model of a config.json, which training must be able to build.

    Raises UsageError where it computes otherwise than our modules do.
    """
    model = model_named(path)
    if not isinstance(model, Transformer):
        raise UsageError(f"{path} is of no GPT-2 or Llama")
    with reading(path, "model file"):
        table: dict[str, Any] = parsed_json(bounded_text(path, "model file"), dict)
    config = Section({key: one for key, one in table.items() if one is not None}, str(path))
    kind = config.text("model_type")
    if kind not in _DETAILS or untrained(model):
        why = untrained(model) or f"its model_type is {kind!r}"
        raise UsageError(f"{path} is of no GPT-2 or Llama that can be trained here: {why}")
    return named_by_blocks(_DETAILS[kind](model, config))


def write_hugging_face(
    folder: Path,
    config: Transformer,
    tensor: Callable[[str], Tensor],
    *,
    end_of_text: int | None = None,
) -> list[Path]:
    """Write a model's config.json and model.safetensors; returns their paths.

    ``tensor``: from a name of the model's tensors to that tensor, whole, padded or not; all have
    one dtype. ``end_of_text``: the token before each document, where it is known. Raises OSError
    when a file cannot be written.
    """
    shapes, whole = _shapes(config), _names(config).whole

    def tensors() -> Iterator[tuple[str, Tensor]]:
        for ours, theirs in _their_names(config).items():
            weights = tensor(ours).detach()[: shapes[ours][0]]  # without the padding of words
            name = theirs if theirs == _HEAD else f"{whole}{theirs}"
            yield name, weights.T if _by_columns(config, ours) else weights

    dtype = str(tensor("embedding.wte").dtype).removeprefix("torch.")
    write_safetensors(folder / WEIGHTS, tensors())
    write_json(folder / CONFIG, {**_description(config, end_of_text), "torch_dtype": dtype})
    return [folder / CONFIG, folder / WEIGHTS]


def _with_gpt2_details(model: Transformer, config: Section) -> Transformer:
    for key, known in (
        ("activation_function", ("gelu_new", "gelu_pytorch_tanh")),
        ("scale_attn_weights", (True,)),
        ("scale_attn_by_inverse_layer_idx", (False,)),
        ("add_cross_attention", (False,)),
    ):
        _check(config, key, known)
    return replace(model, norm_epsilon=config.number("layer_norm_epsilon", 1e-5))


def _with_llama_details(model: Transformer, config: Section) -> Transformer:
    _check(config, "hidden_act", ("silu",))
    # transformers 5 has the base of rotary positions in a table of its own; 4 had it beside one.
    of_positions = config.section("rope_parameters")
    for table in (of_positions, config.section("rope_scaling")):
        for key in ("rope_type", "type"):
            _check(table, key, ("default",))
    theta = config.number("rope_theta", 10_000.0)
    return replace(
        model,
        norm_epsilon=config.number("rms_norm_eps", 1e-6),
        rope_theta=of_positions.number("rope_theta", theta),
    )


_DETAILS: dict[str, Callable[[Transformer, Section], Transformer]] = {
    "gpt2": _with_gpt2_details,
    "llama": _with_llama_details,
    "mixtral": _with_llama_details,
}
"""What of a config.json changes what is computed, by its model_type."""


def _check(config: Section, key: str, known: tuple[object, ...]) -> None:
    """Raise UsageError where a key is there and its value not one that our modules compute."""
    if config.has(key) and config.raw(key) not in known:
        config.refuse(key, f"is {config.raw(key)!r}, and only {known[0]!r} is computed here")


def _files(folder: Path) -> dict[str, Stored]:
    """The tensors of all files of a folder, by name."""
    if (folder / WEIGHTS).is_file():
        return read_stored(folder / WEIGHTS)[0]
    index = folder / _INDEX
    if not index.is_file():
        if any((folder / name).exists() for name in _PICKLES):
            raise UsageError(
                f"{folder} has its weights as a pickle, which could run code: save the model "
                f"with transformers, which writes {WEIGHTS}"
            )
        raise UsageError(f"{folder} has no {WEIGHTS}: copy the weights there")
    with reading(index, "index of weights"):
        text = bounded_text(index, "index of weights", _MOST_INDEX)
        file_of = checked(parsed_json(text, dict)["weight_map"], dict[str, str])
        names = sorted(set(file_of.values()))
        if any(Path(name).name != name for name in names):
            raise ValueError("it leads out of its folder")
    files = {name: read_stored(folder / name)[0] for name in names}
    for tensor, name in file_of.items():
        if tensor not in files[name]:
            raise UsageError(f"{folder / name} has no {tensor}, which {_INDEX} has there")
    return {tensor: files[name][tensor] for tensor, name in file_of.items()}


def _ours(path: Path, config: Transformer, found: Mapping[str, Stored]) -> dict[str, Stored]:
    """What was found, by our names; UsageError where it is not what the model consists of."""
    whole = _names(config).whole
    bare = {name.removeprefix(whole): one for name, one in found.items()}
    theirs = _their_names(config)
    shapes = _shapes(config)
    for ours, name in theirs.items():
        if name not in bare:
            raise UsageError(f"{path} lacks {name}, which its {CONFIG} asks for: copy it again")
        shape = bare[name].shape
        needed = shapes[ours][::-1] if _by_columns(config, ours) else shapes[ours]
        if shape != needed:
            raise UsageError(
                f"{path} has {name} of {_times(shape)}, and by its {CONFIG} it is of "
                f"{_times(needed)}: they are of two models"
            )
    known = {*theirs.values(), *([_HEAD] if config.architecture.tied else [])}
    others = [name for name in bare if name not in known and not name.endswith(_BUFFERS)]
    if others:
        raise UsageError(f"{path} has {others[0]}, which is in no model of its {CONFIG}")
    return {ours: bare[name] for ours, name in theirs.items()}


def _names(config: Transformer) -> _Names:
    return _GPT2 if config.architecture.learned_positions else _LLAMA


def _their_names(config: Transformer) -> dict[str, str]:
    """For each tensor of the model its name there, without that of the whole model."""
    names, found = _names(config), {}
    for ours in _shapes(config):
        stem, _, last = ours.rpartition(".")
        if ours in names.ends:  # a table, which is a parameter and no module with a weight
            found[ours] = f"{names.ends[ours]}.weight"
        elif ours == "head.weight":
            found[ours] = _HEAD
        elif stem in names.ends:
            found[ours] = f"{names.ends[stem]}.{last}"
        else:
            _, number, part = stem.split(".", 2)
            expert = _EXPERT.fullmatch(part)
            theirs = (
                f"block_sparse_moe.experts.{expert[1]}.{_OF_EXPERT[expert[2]]}"
                if expert
                else names.block[part]
            )
            found[ours] = f"{names.blocks}.{number}.{theirs}.{last}"
    return found


def _by_columns(config: Transformer, name: str) -> bool:
    """Whether a tensor lies transposed there: a matrix of a Conv1D, as all of GPT-2's blocks."""
    in_block = name.startswith("blocks.") and name.endswith(".weight")
    return config.architecture.learned_positions and in_block and ".ln" not in name


def _shapes(config: Transformer) -> dict[str, tuple[int, ...]]:
    return {tensor.name: tensor.shape for unit in config.units for tensor in unit.tensors}


def _times(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "one number"


def _description(config: Transformer, end_of_text: int | None) -> dict[str, Any]:
    """The config.json of a model, with the keys that transformers reads."""
    ends = {} if end_of_text is None else {"bos_token_id": end_of_text, "eos_token_id": end_of_text}
    shared = {
        **ends,
        "vocab_size": config.vocabulary,
        "tie_word_embeddings": config.architecture.tied,
    }
    if config.architecture.learned_positions:
        return {
            "architectures": ["GPT2LMHeadModel"],
            "model_type": "gpt2",
            "activation_function": "gelu_new",
            "n_layer": config.layers,
            "n_embd": config.hidden,
            "n_head": config.heads,
            "n_inner": config.inner,
            "n_positions": config.context,
            "layer_norm_epsilon": config.norm_epsilon,
            **dict.fromkeys(("attn_pdrop", "embd_pdrop", "resid_pdrop"), 0.0),
            **shared,
        }
    mixed = config.experts > 1
    experts = {"num_local_experts": config.experts, "num_experts_per_tok": config.top_k}
    return {
        "architectures": ["MixtralForCausalLM" if mixed else "LlamaForCausalLM"],
        "model_type": "mixtral" if mixed else "llama",
        "hidden_act": "silu",
        "num_hidden_layers": config.layers,
        "hidden_size": config.hidden,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        **({"head_dim": config.head_width} if config.head_width else {}),
        "intermediate_size": config.inner,
        "max_position_embeddings": config.context,
        "rms_norm_eps": config.norm_epsilon,
        "rope_theta": config.rope_theta,
        "attention_bias": False,
        "mlp_bias": False,
        **(experts if mixed else {}),
        **shared,
    }
