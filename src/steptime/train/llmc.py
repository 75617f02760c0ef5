"""The checkpoint format of llm.c: all weights of a GPT-2 in one file.

256 little-endian int32 and 16 tensors, those of the blocks stacked over the layers; the head is the
token embedding (karpathy/llm.c, ``write_model`` of train_gpt2.py and ``gpt2_build_from_checkpoint``
of train_gpt2.c). Reading the header needs no torch.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from steptime.errors import UsageError
from steptime.files import atomic_file, opened
from steptime.train.config import gpt2
from steptime.workloads.models import Transformer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from torch import Tensor

    from steptime.train.model import Decoder

CheckpointDtype: TypeAlias = Literal["fp32", "bf16"]

_MAGIC = 20240326
_HEADER_BYTES = 1024
_VERSIONS: dict[CheckpointDtype, int] = {"fp32": 3, "bf16": 5}
_STORED = {3: "<f4", 5: "<i2"}  # of each version; NumPy has no bf16, int16 carries its bits


@dataclass(frozen=True)
class Checkpoint:
    """The weights in a file, by their names in ``GPT2``.

    The tensors are mapped, not read; ``version`` determines their dtype: 3 fp32, 5 bf16.
    """

    path: Path
    config: Transformer
    version: int
    tensors: Mapping[str, Tensor]


def read_header(path: Path) -> tuple[Transformer, int]:
    """The dimensions and the version of a checkpoint, if its size agrees with them.

    Raises UsageError when the file cannot be read, is no checkpoint, has a version other than 3 and
    5 or impossible dimensions, or has not exactly the size that they demand.
    """
    with opened(path, "checkpoint") as file:
        start, size = file.read(_HEADER_BYTES), os.fstat(file.fileno()).st_size
    magic = int.from_bytes(start[:4], "little", signed=True)
    if magic != _MAGIC:
        raise UsageError(f"{path} is no llm.c checkpoint: its magic is {magic}, not {_MAGIC}")
    if len(start) < _HEADER_BYTES:
        raise UsageError(f"{path} is truncated within its header; copy or write it anew")
    version, context, vocabulary, layers, heads, embd, padded = np.frombuffer(
        start, "<i4", count=7, offset=4
    ).tolist()
    if version not in _STORED:
        raise UsageError(
            f"{path} is a checkpoint of version {version}, and only 3 (fp32) and 5 (bf16) are "
            "known: write it anew with llm.c's current scripts"
        )
    try:
        config = gpt2(
            layers=layers, heads=heads, hidden=embd, context=context, vocabulary=vocabulary
        )
    except UsageError:
        raise UsageError(
            f"{path} is damaged: its header says {layers} layers, {heads} heads, {embd} channels, "
            f"{context} positions and {vocabulary} tokens, which is no GPT-2"
        ) from None
    if padded != config.padded().vocabulary:
        raise UsageError(
            f"{path} pads its vocabulary of {vocabulary} tokens to {padded}, and only "
            f"{config.padded().vocabulary}, the next multiple of 128, is supported"
        )
    expected = _HEADER_BYTES + config.padded().parameters * np.dtype(_STORED[version]).itemsize
    if size != expected:
        raise UsageError(
            f"{path} is damaged: {size:,} bytes, and its header asks for {expected:,}; copy or "
            "write it anew"
        )
    return config, version


def read_checkpoint(path: Path) -> Checkpoint:
    """The weights in a file; raises UsageError as ``read_header`` does."""
    import torch

    config, version = read_header(path)
    weights = torch.from_numpy(np.memmap(path, _STORED[version], "c", _HEADER_BYTES))
    if version == _VERSIONS["bf16"]:
        weights = weights.view(torch.bfloat16)
    tensors, start = {}, 0
    for name, shape in tensor_order(config):
        tensors[name] = weights[start : start + prod(shape)].view(shape)
        start += prod(shape)
    return Checkpoint(path, config, version, tensors)


def write_checkpoint(path: Path, model: Decoder, dtype: CheckpointDtype) -> None:
    """Write the weights of ``model`` tensor by tensor; the file appears whole or not at all.

    Raises OSError when it cannot be written.
    """
    write_weights(path, model.config, dict(model.named_parameters()), dtype)


def write_weights(
    path: Path, config: Transformer, weights: Mapping[str, Tensor], dtype: CheckpointDtype
) -> None:
    """As ``write_checkpoint``, from the weights of a model by their names."""
    import torch

    from steptime.train.precision import DTYPES

    header = np.zeros(_HEADER_BYTES // 4, "<i4")
    header[:8] = (
        _MAGIC,
        _VERSIONS[dtype],
        config.context,
        config.vocabulary,
        config.layers,
        config.heads,
        config.hidden,
        config.padded().vocabulary,
    )
    with atomic_file(path) as file:
        file.write(header.data)
        for name, _ in tensor_order(config):
            stored = weights[name].detach().to("cpu", DTYPES[dtype]).contiguous()
            bits = stored.view(torch.int16) if dtype == "bf16" else stored
            file.write(bits.numpy().data)


def can_hold(config: Transformer) -> bool:
    """Whether the format has a place for every tensor of the model: it is GPT-2's."""
    tensors = {
        tensor.name: tensor.shape for unit in config.padded().units for tensor in unit.tensors
    }
    return dict(tensor_order(config)) == tensors


def check_dimensions(path: Path, stored: Transformer, wanted: Transformer) -> None:
    """Raise UsageError, naming what differs, when ``path`` holds another model than is wanted."""
    theirs, ours = stored.dimensions, wanted.dimensions
    different = [field for field in ours if theirs.get(field) != ours[field]]
    if different:
        holds = ", ".join(f"{field} {theirs.get(field, 0)}" for field in different)
        needs = ", ".join(f"{field} {ours[field]}" for field in different)
        raise UsageError(f"{path} holds a model with {holds}, and this one has {needs}")


def tensor_order(config: Transformer) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and shape of each parameter in the order of the file.

    A tensor stacked over the layers is those layers' tensors one after the other.
    """
    C = config.hidden
    yield "embedding.wte", (config.padded().vocabulary, C)
    yield "embedding.wpe", (config.context, C)
    for name, shape in (
        ("ln1.weight", (C,)),
        ("ln1.bias", (C,)),
        ("attention.qkv.weight", (3 * C, C)),
        ("attention.qkv.bias", (3 * C,)),
        ("attention.proj.weight", (C, C)),
        ("attention.proj.bias", (C,)),
        ("ln2.weight", (C,)),
        ("ln2.bias", (C,)),
        ("mlp.fc.weight", (4 * C, C)),
        ("mlp.fc.bias", (4 * C,)),
        ("mlp.proj.weight", (C, 4 * C)),
        ("mlp.proj.bias", (C,)),
    ):
        for layer in range(config.layers):
            yield f"blocks.{layer}.{name}", shape
    yield "head.ln.weight", (C,)
    yield "head.ln.bias", (C,)
