import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
import oracle
import pytest
import torch
from numpy.typing import NDArray

from steptime.errors import UsageError
from steptime.train.config import gpt2
from steptime.train.llmc import (
    read_checkpoint,
    read_header,
    tensor_order,
    write_checkpoint,
)
from steptime.train.model import Decoder
from steptime.train.options import ModelOptions
from steptime.train.shards import open_token_shard
from steptime.train.weights import Weights, load_weights
from steptime.workloads.models import Transformer

TINY = gpt2(layers=2, heads=2, hidden=8, context=12, vocabulary=300)
FILE_ORDER = (
    "embedding.wte",
    "embedding.wpe",
    "ln1.weight",
    "ln1.bias",
    "attention.qkv.weight",
    "attention.qkv.bias",
    "attention.proj.weight",
    "attention.proj.bias",
    "ln2.weight",
    "ln2.bias",
    "mlp.fc.weight",
    "mlp.fc.bias",
    "mlp.proj.weight",
    "mlp.proj.bias",
    "head.ln.weight",
    "head.ln.bias",
)


def preset(name: str, vocabulary: int) -> Transformer:
    return ModelOptions(model=name).config(vocabulary)


def random_model(config: Transformer, spread: float = 0.0, seed: int = 1) -> Decoder:
    """A freshly initialised model; with ``spread`` its biases and norms are random as well."""
    generator = torch.Generator().manual_seed(seed)
    model = Decoder(config, generator)
    if spread:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=spread)
    return model


def handmade(config: Transformer, version: int, body: bytes) -> bytes:
    fields = (
        20240326,
        version,
        config.context,
        config.vocabulary,
        config.layers,
        config.heads,
        config.hidden,
        384,
    )
    return struct.pack("<256i", *fields, *[0] * 248) + body


def bits(tensor: torch.Tensor) -> NDArray[np.int16]:
    return tensor.detach().contiguous().view(torch.int16).numpy()


def test_file_is_what_llmc_would_write_byte_for_byte(tmp_path: Path) -> None:
    model = random_model(TINY, spread=0.1)
    named = {name: p.detach().numpy() for name, p in model.named_parameters()}
    tensors = [
        named[name] if name in named else np.stack([named[f"blocks.{i}.{name}"] for i in range(2)])
        for name in FILE_ORDER
    ]
    body = b"".join(tensor.astype("<f4").tobytes() for tensor in tensors)

    write_checkpoint(tmp_path / "model.bin", model, "fp32")

    assert (tmp_path / "model.bin").read_bytes() == handmade(TINY, 3, body)
    assert [path.name for path in tmp_path.iterdir()] == ["model.bin"]


def test_every_element_of_a_handmade_file_lands_where_llmc_has_it(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(handmade(TINY, 3, np.arange(TINY.padded().parameters, dtype="<f4").tobytes()))

    checkpoint = read_checkpoint(path)

    assert (checkpoint.config, checkpoint.version) == (TINY, 3)
    reference = oracle.read_weights(path).tensors
    assert torch.equal(checkpoint.tensors["embedding.wpe"], torch.from_numpy(reference["wpe"]))
    for layer in range(2):
        for ours, theirs in (("mlp.fc.bias", "fcb"), ("attention.qkv.weight", "qkvw")):
            tensor = checkpoint.tensors[f"blocks.{layer}.{ours}"]
            assert torch.equal(tensor, torch.from_numpy(reference[theirs][layer]))
    assert checkpoint.tensors["head.ln.bias"][-1] == TINY.padded().parameters - 1


def test_order_has_every_parameter_of_the_model_once() -> None:
    named = [(name, tuple(p.shape)) for name, p in random_model(TINY).named_parameters()]
    assert sorted(tensor_order(TINY)) == sorted(named)
    assert sum(prod(shape) for _, shape in tensor_order(TINY)) == TINY.padded().parameters


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_weights_survive_a_round_trip_bit_for_bit(tmp_path: Path, dtype: str) -> None:
    model = random_model(TINY, spread=0.1)
    if dtype == "bf16":
        model = model.bfloat16()
    write_checkpoint(tmp_path / "model.bin", model, dtype)

    again = random_model(TINY, seed=2).to(next(model.parameters()).dtype)
    load_weights(again, Weights(tmp_path / "model.bin"))

    for ours, theirs in zip(model.parameters(), again.parameters(), strict=True):
        assert np.array_equal(bits(ours), bits(theirs))


def test_bf16_file_rounds_fp32_weights_to_nearest(tmp_path: Path) -> None:
    model = random_model(TINY)
    write_checkpoint(tmp_path / "model.bin", model, "bf16")

    checkpoint = read_checkpoint(tmp_path / "model.bin")

    assert checkpoint.version == 5
    assert (tmp_path / "model.bin").stat().st_size == 1024 + 2 * TINY.padded().parameters
    weights = model.embedding.wte.detach()
    stored = checkpoint.tensors["embedding.wte"]
    assert stored.dtype == torch.bfloat16
    assert torch.equal(stored, weights.bfloat16())
    assert not torch.equal(stored.float(), weights)


def test_reading_does_not_change_the_file_when_its_tensors_change(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "model.bin", random_model(TINY), "fp32")
    before = (tmp_path / "model.bin").read_bytes()
    read_checkpoint(tmp_path / "model.bin").tensors["embedding.wte"].zero_()
    assert (tmp_path / "model.bin").read_bytes() == before


def test_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    model = random_model(TINY)
    write_checkpoint(tmp_path / "model.bin", model, "fp32")
    before = (tmp_path / "model.bin").read_bytes()
    del model.head.ln.bias  # what the file ends with
    with pytest.raises(KeyError):
        write_checkpoint(tmp_path / "model.bin", model, "fp32")
    assert (tmp_path / "model.bin").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["model.bin"]


def header_with(good: bytes, **fields: int) -> bytes:
    place = ["magic", "version", "context", "vocabulary", "layers", "heads", "hidden", "padded"]
    header = list(struct.unpack("<256i", good[:1024]))
    for name, value in fields.items():
        header[place.index(name)] = value
    return struct.pack("<256i", *header) + good[1024:]


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda good: good[:0], "magic"),
        (lambda good: header_with(good, magic=20240520), "magic is 20240520"),
        (lambda good: good[:1000], "truncated within its header"),
        (lambda good: header_with(good, version=1), "version 1"),
        (lambda good: header_with(good, version=5), "its header asks for"),
        (lambda good: good[:-1], "its header asks for"),
        (lambda good: good + b"\0", "its header asks for"),
        (lambda good: header_with(good, padded=300), "pads its vocabulary of 300 tokens to 300"),
        (lambda good: header_with(good, padded=512), "pads its vocabulary of 300 tokens to 512"),
        (lambda good: header_with(good, layers=0), "0 layers"),
        (lambda good: header_with(good, hidden=-8), "-8 channels"),
        (lambda good: header_with(good, heads=3), "3 heads"),
        (lambda good: header_with(good, context=-1), "-1 positions"),
        (lambda good: header_with(good, vocabulary=0), "0 tokens"),
        (
            lambda good: header_with(good, layers=2**31 - 1, hidden=2**31 - 2),
            "says 2147483647 layers",
        ),
    ],
)
def test_damaged_file_is_refused_in_a_sentence_that_names_it(
    tmp_path: Path, damage: Callable[[bytes], bytes], sentence: str
) -> None:
    path = tmp_path / "model.bin"
    write_checkpoint(path, random_model(TINY), "fp32")
    path.write_bytes(damage(path.read_bytes()))
    for read in (read_header, read_checkpoint):
        with pytest.raises(UsageError, match=sentence) as error:
            read(path)
        assert str(path) in str(error.value)
        assert "\n" not in str(error.value)


def test_missing_file_and_folder_are_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.bin: No such file"):
        read_checkpoint(tmp_path / "none.bin")
    with pytest.raises(UsageError, match="Is a directory"):
        read_checkpoint(tmp_path)


def test_other_dimensions_are_refused_and_named(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "model.bin", random_model(TINY), "fp32")
    other = random_model(replace(TINY, layers=3, context=16))
    with pytest.raises(UsageError, match="layers 2, context 12, and this one has layers 3"):
        load_weights(other, Weights(tmp_path / "model.bin"))


def test_header_is_read_without_torch(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "model.bin", random_model(TINY), "bf16")
    code = (
        "import sys; from pathlib import Path; from steptime.train.llmc import read_header; "
        f"print(read_header(Path({str(tmp_path / 'model.bin')!r}))[1], 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["5", "False"]


def write_files(folder: Path, model: Decoder, rows: int, length: int) -> None:
    """``model.bin`` and ``tokens.bin``, a shard packed by hand, of ``rows`` rows and one token."""
    count = rows * length + 1
    tokens = np.random.default_rng(3).integers(0, model.config.vocabulary, count).tolist()
    shard = struct.pack("<256i", 20240520, 1, count, *[0] * 253) + struct.pack(
        f"<{count}H", *tokens
    )
    (folder / "tokens.bin").write_bytes(shard)
    write_checkpoint(folder / "model.bin", model, "fp32")


def our_loss(folder: Path, rows: int, length: int) -> float:
    """Of a model that is built from the files and nothing else."""
    checkpoint = read_checkpoint(folder / "model.bin")
    model = random_model(checkpoint.config, seed=9)
    load_weights(model, Weights(folder / "model.bin"))
    x, y = our_rows(folder, rows, length)
    return float(model(x, y).detach())


def our_rows(folder: Path, rows: int, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.from_numpy(open_token_shard(folder / "tokens.bin").astype(np.int64))
    return tokens[:-1].view(rows, length), tokens[1:].view(rows, length)


def oracle_loss(folder: Path, rows: int, length: int) -> float:
    tokens = oracle.read_tokens(folder / "tokens.bin")
    x, y = tokens[:-1].reshape(rows, length), tokens[1:].reshape(rows, length)
    return oracle.forward(oracle.read_weights(folder / "model.bin"), x, y)[1]


@pytest.mark.parametrize(
    ("config", "spread", "rows", "length"),
    [
        (TINY, 0.3, 3, 11),
        (preset("nano", 300), 0.0, 2, 77),
        (preset("nano", 300), 0.05, 2, 77),
        pytest.param(preset("124M", 50257), 0.0, 1, 64, marks=pytest.mark.slow),
    ],
    ids=["tiny", "nano", "nano with random norms and biases", "124M"],
)
def test_loss_agrees_with_a_float64_reference(
    tmp_path: Path, config: Transformer, spread: float, rows: int, length: int
) -> None:
    write_files(tmp_path, random_model(config, spread), rows, length)
    ours, reference = our_loss(tmp_path, rows, length), oracle_loss(tmp_path, rows, length)
    assert abs(ours - reference) < 1e-5
    assert abs(ours - reference) < 1e-5 * reference


def write_debug_state(path: Path, model: Decoder, x: torch.Tensor, y: torch.Tensor) -> None:
    """What llm.c's ``write_state`` would write of ``model``."""
    loss = model(x, y)
    loss.backward()
    gradients = {name: p.grad.numpy() for name, p in model.named_parameters()}
    header = struct.pack("<256i", 20240327, 2, *x.shape, *[0] * 252)
    arrays = [x.int(), y.int(), model.logits(x).detach(), loss.detach()]
    body = [array.numpy().tobytes() for array in arrays]
    body += [gradients[name].tobytes() for name, _ in tensor_order(model.config)]
    path.write_bytes(header + b"".join(body))


def test_logits_and_gradients_agree_with_the_reference(tmp_path: Path) -> None:
    rows, length = 2, 10
    model = random_model(TINY, spread=0.3)
    write_files(tmp_path, model, rows, length)
    write_debug_state(tmp_path / "debug.bin", model, *our_rows(tmp_path, rows, length))

    weights = oracle.read_weights(tmp_path / "model.bin")
    state = oracle.read_debug_state(tmp_path / "debug.bin", weights.fields)
    logits, loss = oracle.forward(weights, state.x, state.y)
    np.testing.assert_allclose(state.logits, logits, rtol=1e-4, atol=1e-5)
    assert state.loss == pytest.approx(loss, abs=1e-5)

    tensors = {name: tensor.astype(np.float64) for name, tensor in weights.tensors.items()}
    exact = oracle.Weights(weights.fields, tensors)
    rng = np.random.default_rng(5)
    for name, tensor in tensors.items():
        steepest = np.unravel_index(np.abs(state.gradients[name]).argmax(), tensor.shape)
        for at in (steepest, tuple(rng.integers(0, tensor.shape))):
            values, middle = [], tensor[at]
            for step in (-1e-5, 1e-5):
                tensor[at] = middle + step
                values.append(oracle.forward(exact, state.x, state.y)[1])
            tensor[at] = middle
            slope = (values[1] - values[0]) / 2e-5
            assert state.gradients[name][at] == pytest.approx(slope, rel=1e-3, abs=1e-6), name


def test_padding_of_the_vocabulary_gets_no_gradient(tmp_path: Path) -> None:
    model = random_model(TINY)
    write_files(tmp_path, model, 2, 10)
    write_debug_state(tmp_path / "debug.bin", model, *our_rows(tmp_path, 2, 10))
    fields = oracle.read_weights(tmp_path / "model.bin").fields
    gradient = oracle.read_debug_state(tmp_path / "debug.bin", fields).gradients["wte"]
    assert not gradient[300:].any()
    assert gradient[:300].any(axis=1).all()
