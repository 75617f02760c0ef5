"""GPT-2 in NumPy and float64, read straight from llm.c's files: what the model is held against.

Shapes: B rows, T positions, C channels, H heads, V tokens, Vp tokens with padding, L layers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HEADER_BYTES = 1024
FIELDS = (
    "max_seq_len",
    "vocab_size",
    "num_layers",
    "num_heads",
    "channels",
    "padded_vocab_size",
)


@dataclass(frozen=True)
class Weights:
    """A checkpoint's fields and tensors under the names that llm.c's C code gives them."""

    fields: dict[str, int]
    tensors: dict[str, NDArray[np.floating]]


@dataclass(frozen=True)
class DebugState:
    """llm.c's debug state: a batch, and what a model makes of it."""

    x: NDArray[np.int32]  # (B, T)
    y: NDArray[np.int32]  # (B, T)
    logits: NDArray[np.float32]  # (B, T, V)
    loss: float
    gradients: dict[str, NDArray[np.float32]]


def shapes(fields: dict[str, int]) -> dict[str, tuple[int, ...]]:
    """The 16 tensors in file order, as ``fill_in_parameter_sizes`` of train_gpt2.c has them."""
    L, C = fields["num_layers"], fields["channels"]
    return {
        "wte": (fields["padded_vocab_size"], C),
        "wpe": (fields["max_seq_len"], C),
        "ln1w": (L, C),
        "ln1b": (L, C),
        "qkvw": (L, 3 * C, C),
        "qkvb": (L, 3 * C),
        "attprojw": (L, C, C),
        "attprojb": (L, C),
        "ln2w": (L, C),
        "ln2b": (L, C),
        "fcw": (L, 4 * C, C),
        "fcb": (L, 4 * C),
        "fcprojw": (L, C, 4 * C),
        "fcprojb": (L, C),
        "lnfw": (C,),
        "lnfb": (C,),
    }


def read_weights(path: Path) -> Weights:
    """An fp32 checkpoint."""
    header = np.fromfile(path, "<i4", count=256)
    assert header[:2].tolist() == [20240326, 3]
    fields = dict(zip(FIELDS, header[2:8].tolist(), strict=True))
    return Weights(fields, _split(np.fromfile(path, "<f4", offset=HEADER_BYTES), shapes(fields)))


def read_tokens(path: Path) -> NDArray[np.uint16]:
    """The tokens of an llm.c shard, shape (n,)."""
    header = np.fromfile(path, "<i4", count=256)
    tokens = np.fromfile(path, "<u2", offset=HEADER_BYTES)
    assert header[:3].tolist() == [20240520, 1, len(tokens)]
    return tokens


def read_debug_state(path: Path, fields: dict[str, int]) -> DebugState:
    """A debug state of a model with these dimensions."""
    header = np.fromfile(path, "<i4", count=256)
    assert header[:2].tolist() == [20240327, 2]
    B, T, V = int(header[2]), int(header[3]), fields["vocab_size"]
    x, y = np.fromfile(path, "<i4", count=2 * B * T, offset=HEADER_BYTES).reshape(2, B, T)
    rest = np.fromfile(path, "<f4", offset=HEADER_BYTES + 8 * B * T)
    logits, loss, gradients = np.split(rest, [B * T * V, B * T * V + 1])
    return DebugState(
        x, y, logits.reshape(B, T, V), float(loss[0]), _split(gradients, shapes(fields))
    )


def forward(
    weights: Weights, x: NDArray[np.integer], y: NDArray[np.integer]
) -> tuple[NDArray[np.float64], float]:
    """Logits (B, T, V) and the mean loss in nats a token, of ``x`` and ``y``, both (B, T)."""
    w = weights.tensors
    residual = w["wte"][x].astype(np.float64) + w["wpe"][: x.shape[1]]  # (B, T, C)
    for block in _blocks(weights):
        attended = _attention(_norm(residual, block, "ln1"), block, weights.fields["num_heads"])
        residual = residual + _linear(attended, block, "attproj")
        hidden = _gelu(_linear(_norm(residual, block, "ln2"), block, "fc"))  # (B, T, 4C)
        residual = residual + _linear(hidden, block, "fcproj")
    real = w["wte"][: weights.fields["vocab_size"]].astype(np.float64)  # (V, C)
    logits = _norm(residual, w, "lnf") @ real.T  # (B, T, V)
    peak = logits.max(axis=-1, keepdims=True)
    normaliser = np.log(np.exp(logits - peak).sum(axis=-1)) + peak[..., 0]  # (B, T)
    chosen = np.take_along_axis(logits, y[..., None].astype(np.int64), axis=-1)[..., 0]
    return logits, float((normaliser - chosen).mean())


def _split(
    flat: NDArray[np.float32], into: dict[str, tuple[int, ...]]
) -> dict[str, NDArray[np.float32]]:
    stops = np.cumsum([np.prod(shape) for shape in into.values()])
    assert len(flat) == stops[-1]
    parts = np.split(flat, stops[:-1])
    return {name: part.reshape(into[name]) for name, part in zip(into, parts, strict=True)}


def _blocks(weights: Weights) -> Iterator[dict[str, NDArray[np.floating]]]:
    outer = {"wte", "wpe", "lnfw", "lnfb"}
    for layer in range(weights.fields["num_layers"]):
        yield {name: w[layer] for name, w in weights.tensors.items() if name not in outer}


def _norm(
    x: NDArray[np.float64], w: dict[str, NDArray[np.floating]], name: str
) -> NDArray[np.float64]:
    centred = x - x.mean(axis=-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
    return scaled * w[name + "w"] + w[name + "b"]


def _linear(
    x: NDArray[np.float64], w: dict[str, NDArray[np.floating]], name: str
) -> NDArray[np.float64]:
    return x @ w[name + "w"].astype(np.float64).T + w[name + "b"]


def _gelu(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _attention(
    x: NDArray[np.float64], w: dict[str, NDArray[np.floating]], heads: int
) -> NDArray[np.float64]:
    B, T, C = x.shape
    q, k, v = (
        part.reshape(B, T, heads, C // heads).transpose(0, 2, 1, 3)  # (B, H, T, C/H)
        for part in np.split(_linear(x, w, "qkv"), 3, axis=-1)
    )
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(C // heads)  # (B, H, T, T)
    scores = np.where(np.tri(T, dtype=bool), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return (weights @ v).transpose(0, 2, 1, 3).reshape(B, T, C)
