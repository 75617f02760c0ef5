"""Weights as Hugging Face's: the same logits as a reference of its own, and the same bits again.

The reference is transformers' modelling code in NumPy and float64, on a file that it reads itself.
"""

import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from steptime.errors import UsageError
from steptime.train.config import gpt2
from steptime.train.hugging_face import read_hugging_face, write_hugging_face
from steptime.train.model import Decoder
from steptime.train.options import ModelOptions
from steptime.train.weights import Weights, load_weights, weights_at
from steptime.workloads.models import Architecture, Transformer
from steptime.workloads.models.families.llama import LLAMA

GPT2 = gpt2(layers=2, heads=2, hidden=16, context=12, vocabulary=300)
LLAMA_2 = Transformer(
    name="llama", layers=2, hidden=16, heads=4, kv_heads=2, inner=40, context=12, vocabulary=300,
    architecture=LLAMA,
)  # fmt: skip
MODELS = {
    "gpt2": GPT2,
    "gpt2 untied, with a narrow MLP": replace(
        GPT2, inner=24, architecture=replace(Architecture(), tied=False)
    ),
    "llama": LLAMA_2,
    "llama tied, with wide heads": replace(
        LLAMA_2, head_width=10, architecture=replace(LLAMA, tied=True)
    ),
    "llama of another base and epsilon": replace(LLAMA_2, rope_theta=500_000.0, norm_epsilon=1e-2),
}
TOKENS = np.random.default_rng(3).integers(0, 300, (2, 11))

Array = NDArray[np.float64]


def random_model(config: Transformer, seed: int = 1) -> Decoder:
    """A model whose biases and norms are random as well, so that each of them counts."""
    generator = torch.Generator().manual_seed(seed)
    model = Decoder(config, generator)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.2)
        for table in (model.embedding.wte, model.head.weight):
            if table is not None:
                table[config.vocabulary :] = 0  # as training keeps the padding
    return model


def written(folder: Path, model: Decoder, dtype: torch.dtype = torch.float32) -> Path:
    named = dict(model.named_parameters())
    folder.mkdir(exist_ok=True)
    write_hugging_face(folder, model.config, lambda name: named[name].to(dtype))
    return folder


def read_by_hand(path: Path) -> dict[str, Array]:
    """An fp32 safetensors file, read as its format is described."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    assert header.pop("__metadata__") == {"format": "pt"}
    found = {}
    for name, told in header.items():
        assert told["dtype"] == "F32"
        begin, end = (8 + length + at for at in told["data_offsets"])
        values = np.frombuffer(content[begin:end], "<f4").reshape(told["shape"])
        found[name] = values.astype(np.float64)
    return found


def write_by_hand(
    path: Path, tensors: dict[str, Array], header: dict[str, Any] | None = None
) -> None:
    """A safetensors file as other libraries may write it: not padded, so not aligned."""
    told, body = dict(header or {}), b""
    for name, values in tensors.items():
        raw = values.astype("<f4").tobytes()
        told.setdefault(
            name,
            {
                "dtype": "F32",
                "shape": values.shape,
                "data_offsets": [len(body), len(body) + len(raw)],
            },
        )
        body += raw
    text = json.dumps(told).encode()
    text += b" " * (1 - len(text) % 2)  # an odd length
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def attended(q: Array, k: Array, v: Array) -> Array:
    """Causal attention, each (B, heads, T, D); (B, T, heads · D)."""
    B, H, T, D = q.shape
    k, v = (np.repeat(one, H // one.shape[1], axis=1) for one in (k, v))
    scores = np.where(np.tri(T, dtype=bool), q @ k.transpose(0, 1, 3, 2) / np.sqrt(D), -np.inf)
    return (softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(B, T, H * D)


def in_heads(x: Array, heads: int) -> Array:
    B, T, C = x.shape
    return x.reshape(B, T, heads, C // heads).transpose(0, 2, 1, 3)


def gpt2_logits(config: dict[str, Any], w: dict[str, Array], tokens: NDArray[np.int64]) -> Array:
    """modeling_gpt2.py: Conv1D multiplies x by the weight as it lies."""
    heads, epsilon = config["n_head"], config["layer_norm_epsilon"]

    def conv(x: Array, name: str) -> Array:
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    def norm(x: Array, name: str) -> Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + epsilon)
        return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["transformer.wte.weight"][tokens] + w["transformer.wpe.weight"][: tokens.shape[1]]
    for layer in range(config["n_layer"]):
        name = f"transformer.h.{layer}"
        qkv = np.split(conv(norm(x, f"{name}.ln_1"), f"{name}.attn.c_attn"), 3, axis=-1)
        x = x + conv(attended(*(in_heads(one, heads) for one in qkv)), f"{name}.attn.c_proj")
        inner = conv(norm(x, f"{name}.ln_2"), f"{name}.mlp.c_fc")
        inner = 0.5 * inner * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3)))
        x = x + conv(inner, f"{name}.mlp.c_proj")
    tied = config["tie_word_embeddings"]
    head = w["transformer.wte.weight" if tied else "lm_head.weight"]
    return norm(x, "transformer.ln_f") @ head.T


def llama_logits(config: dict[str, Any], w: dict[str, Array], tokens: NDArray[np.int64]) -> Array:
    """modeling_llama.py: rotate_half, RMSNorm, a gate with SiLU, shared heads of keys."""
    heads, shared = config["num_attention_heads"], config["num_key_value_heads"]
    width = config.get("head_dim", config["hidden_size"] // heads)
    base = config["rope_theta"] ** -(np.arange(0, width, 2) / width)
    angles = np.outer(np.arange(tokens.shape[1]), np.concatenate([base, base]))

    def turned(x: Array) -> Array:
        half = np.concatenate([-x[..., width // 2 :], x[..., : width // 2]], axis=-1)
        return x * np.cos(angles) + half * np.sin(angles)

    def linear(x: Array, name: str) -> Array:
        return x @ w[f"{name}.weight"].T

    def norm(x: Array, name: str) -> Array:
        square = (x**2).mean(axis=-1, keepdims=True)
        return w[f"{name}.weight"] * x / np.sqrt(square + config["rms_norm_eps"])

    x = w["model.embed_tokens.weight"][tokens]
    for layer in range(config["num_hidden_layers"]):
        name = f"model.layers.{layer}"
        y = norm(x, f"{name}.input_layernorm")
        q = turned(in_heads(linear(y, f"{name}.self_attn.q_proj"), heads))
        k = turned(in_heads(linear(y, f"{name}.self_attn.k_proj"), shared))
        v = in_heads(linear(y, f"{name}.self_attn.v_proj"), shared)
        x = x + linear(attended(q, k, v), f"{name}.self_attn.o_proj")
        y = norm(x, f"{name}.post_attention_layernorm")
        gate = linear(y, f"{name}.mlp.gate_proj")
        gate = gate / (1 + np.exp(-gate))
        x = x + linear(gate * linear(y, f"{name}.mlp.up_proj"), f"{name}.mlp.down_proj")
    tied = config["tie_word_embeddings"]
    head = w["model.embed_tokens.weight" if tied else "lm_head.weight"]
    return norm(x, "model.norm") @ head.T


REFERENCES: dict[str, Callable[..., Array]] = {"gpt2": gpt2_logits, "llama": llama_logits}


def our_logits(model: Decoder) -> NDArray[np.float32]:
    with torch.no_grad():
        found: NDArray[np.float32] = model.logits(torch.from_numpy(TOKENS)).numpy()
    return found


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_the_reference_and_weights_come_back_bit_by_bit(
    name: str, tmp_path: Path
) -> None:
    model = random_model(MODELS[name])
    folder = written(tmp_path / "theirs", model)
    config = json.loads((folder / "config.json").read_text())
    reference = REFERENCES[config["model_type"]](
        config, read_by_hand(folder / "model.safetensors"), TOKENS
    )
    np.testing.assert_allclose(our_logits(model), reference, rtol=1e-5, atol=1e-5)
    weights = weights_at(folder)
    found = weights.dimensions()
    assert (found.dimensions, found.architecture) == (
        model.config.dimensions,
        model.config.architecture,
    )
    again = Decoder(found, torch.Generator())
    load_weights(again, weights)
    assert_same(again, model)


def assert_same(one: Decoder, other: Decoder) -> None:
    others = dict(other.named_parameters())
    for name, parameter in one.named_parameters():
        assert torch.equal(parameter, others.pop(name)), name
    assert not others


@pytest.mark.parametrize("name", MODELS)
def test_logits_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    model = random_model(MODELS[name])
    theirs = transformers.AutoModelForCausalLM.from_pretrained(written(tmp_path / "it", model))
    with torch.no_grad():
        logits = theirs(torch.from_numpy(TOKENS)).logits.numpy()
    np.testing.assert_allclose(our_logits(model), logits, rtol=1e-5, atol=1e-5)
    theirs.save_pretrained(tmp_path / "again")
    again = Decoder(weights_at(tmp_path / "again").dimensions(), torch.Generator())
    load_weights(again, weights_at(tmp_path / "again"))
    assert_same(again, model)


def test_half_precision_comes_back_bit_by_bit(tmp_path: Path) -> None:
    model = random_model(LLAMA_2)
    for dtype in (torch.bfloat16, torch.float16):
        tensor = read_hugging_face(written(tmp_path / "half", model, dtype)).tensor
        for name, parameter in model.named_parameters():
            assert torch.equal(tensor(name), parameter.to(dtype)), name


@pytest.mark.parametrize("config", [GPT2, LLAMA_2], ids=["gpt2", "llama"])
def test_shards_bare_names_and_buffers_of_old_files_are_read(
    config: Transformer, tmp_path: Path
) -> None:
    model = random_model(config)
    folder = written(tmp_path / "one", model)
    whole = "transformer." if config is GPT2 else "model."
    tensors = {
        name.removeprefix(whole): values
        for name, values in read_by_hand(folder / "model.safetensors").items()
    }
    tensors["h.0.attn.bias" if config is GPT2 else "layers.0.self_attn.rotary_emb.inv_freq"] = (
        np.ones((1, 1, 12, 12))
    )
    half = len(tensors) // 2
    (folder / "model.safetensors").unlink()
    for number, names in enumerate((list(tensors)[:half], list(tensors)[half:])):
        write_by_hand(
            folder / f"part-{number}.safetensors", {name: tensors[name] for name in names}
        )
    file_of = {name: f"part-{int(place >= half)}.safetensors" for place, name in enumerate(tensors)}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": file_of}))
    again = Decoder(weights_at(folder).dimensions(), torch.Generator())
    load_weights(again, weights_at(folder))
    assert_same(again, model)
    # And one file that was named itself; it has not all tensors.
    with pytest.raises(
        UsageError, match=r"part-0.safetensors lacks .*, which its config.json asks"
    ):
        weights_at(folder / "part-0.safetensors").dimensions()
    index.write_text(json.dumps({"weight_map": {"a": "../../x.safetensors"}}))
    with pytest.raises(UsageError, match="it leads out of its folder"):
        weights_at(folder).dimensions()


def test_training_starts_from_them(tmp_path: Path) -> None:
    folder = written(tmp_path / "mine", random_model(LLAMA_2))
    for path in (folder, folder / "model.safetensors"):
        config = ModelOptions(init=path).config(vocabulary=1)
        assert config.dimensions == LLAMA_2.dimensions
        assert config.name == "llama-2×16"


def test_a_mixture_of_experts_has_the_names_of_mixtral(tmp_path: Path) -> None:
    config = replace(LLAMA_2, experts=3, top_k=2)
    shapes = {t.name: t.shape for unit in config.padded().units for t in unit.tensors}
    drawn = {name: torch.randn(shape) for name, shape in shapes.items()}
    for name in ("embedding.wte", "head.weight"):
        drawn[name][config.vocabulary :] = 0
    write_hugging_face(tmp_path, config, drawn.__getitem__)
    theirs = read_by_hand(tmp_path / "model.safetensors")
    moe = "model.layers.1.block_sparse_moe"
    np.testing.assert_array_equal(theirs[f"{moe}.gate.weight"], drawn["blocks.1.mlp.router.weight"])
    for w, name in (("w1", "gate"), ("w2", "proj"), ("w3", "fc")):
        ours = drawn[f"blocks.1.mlp.experts.2.{name}.weight"]
        np.testing.assert_array_equal(theirs[f"{moe}.experts.2.{w}.weight"], ours)
    found = read_hugging_face(tmp_path)
    assert found.config.dimensions == config.dimensions
    assert all(torch.equal(found.tensor(name), values) for name, values in drawn.items())


@pytest.mark.parametrize(
    ("of", "changed", "sentence"),
    [
        (
            GPT2,
            {"activation_function": "relu"},
            "activation_function is 'relu', and only 'gelu_new'",
        ),
        (GPT2, {"n_layer": 3}, "lacks h.2.ln_1.weight, which its config.json asks for"),
        (GPT2, {"n_layer": 1}, r"has h\.1\.\S+, which is in no model of its config"),
        (GPT2, {"vocab_size": 299}, "has wte.weight of 300×16, and by its config.json .* 299×16"),
        (GPT2, {"model_type": "bert"}, "config.json"),
        (LLAMA_2, {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "only 'default' is"),
        (LLAMA_2, {"attention_bias": True}, "cannot|that can be trained here: biases of single"),
        (LLAMA_2, {"model_type": "qwen3"}, "no GPT-2 or Llama that can be trained here"),
        (LLAMA_2, {"rms_norm_eps": "small"}, "rms_norm_eps is 'small': it must be a number"),
    ],
)
def test_what_is_computed_otherwise_or_of_another_model_is_refused(
    of: Transformer, changed: dict[str, object], sentence: str, tmp_path: Path
) -> None:
    folder = written(tmp_path / "mine", random_model(of))
    config = json.loads((folder / "config.json").read_text()) | changed
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match=sentence) as refused:
        weights_at(folder).dimensions()
    assert str(tmp_path) in str(refused.value)


def header_of(**of_tensor: object) -> bytes:
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | of_tensor
    return json.dumps({"a": entry}).encode()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is no safetensors file"),
        ((1 << 60).to_bytes(8, "little") + b"{}", "is no safetensors file: its header would have"),
        (b"\x02" + bytes(7) + b"[]", "cannot read the weights"),
        (b"\x04" + bytes(7) + b"{'a'", "it is no JSON"),
        (header_of(data_offsets=[0, 4]), "not where its header says, or of another size"),
        (header_of(data_offsets=[4, 12]), "not where its header says, or of another size"),
        (header_of(data_offsets=[-8, 0]), "has a size below 0"),
        (header_of(shape=[1 << 62, 1 << 62]), "or of another size"),
        (header_of(dtype="Q4"), "the dtype 'Q4', which is not known here"),
        (header_of() + b"more", "cannot read the weights"),
        (header_of(shape="two"), "cannot read the weights"),
    ],
)
def test_a_damaged_file_is_one_sentence(content: bytes, sentence: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "mine", random_model(GPT2))
    path = folder / "model.safetensors"
    framed = content.startswith(b"{")
    path.write_bytes(len(content).to_bytes(8, "little") + content + bytes(8) if framed else content)
    with pytest.raises(UsageError, match=sentence):
        weights_at(folder).dimensions()


def test_a_file_cut_off_anywhere_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path / "mine", random_model(GPT2))
    path = folder / "model.safetensors"
    whole = path.read_bytes()
    for size in (3, 8, 20, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(UsageError, match=str(path)):
            weights_at(folder).dimensions()


def test_quantised_weights_are_refused(tmp_path: Path) -> None:
    model = random_model(GPT2)
    folder = written(tmp_path / "mine", model)
    path = folder / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"F32"', b'"I32"'))
    with pytest.raises(UsageError, match=r"holds .* in I32: weights are read in"):
        load_weights(model, weights_at(folder))


def test_pickles_are_refused_unread(tmp_path: Path) -> None:
    trap = pickle.dumps({"weights": 1}, protocol=2)
    (tmp_path / "old.bin").write_bytes(trap)
    torch.save({"weights": torch.zeros(3)}, tmp_path / "new.bin")
    for name in ("old.bin", "new.bin"):
        with pytest.raises(
            UsageError, match=r"is a pickle as torch\.save writes it, which could run"
        ):
            Weights(tmp_path / name).dimensions()
    folder = written(tmp_path / "mine", random_model(GPT2))
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(UsageError, match="has its weights as a pickle, which could run code"):
        weights_at(folder).dimensions()
    (folder / "pytorch_model.bin").unlink()
    with pytest.raises(UsageError, match=r"has no model.safetensors"):
        weights_at(folder).dimensions()
    (folder / "config.json").unlink()
    with pytest.raises(UsageError, match="holds no weights"):
        weights_at(folder)


def test_sizes_agree_with_what_is_described() -> None:
    for config in MODELS.values():
        model = random_model(config)
        shapes = {t.name: t.shape for unit in config.padded().units for t in unit.tensors}
        assert {name: tuple(p.shape) for name, p in model.named_parameters()} == shapes
        assert sum(map(prod, shapes.values())) == config.padded().parameters
