"""generate from end to end: what was trained writes, the same by its seed, as its model says."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from command import Ended, here, tiny

import steptime as st
from forked import forked
from steptime.errors import UsageError
from steptime.train.config import gpt2
from steptime.train.generate import Writer, open_writer
from steptime.train.hugging_face import write_hugging_face
from steptime.train.llmc import write_checkpoint
from steptime.train.model import Decoder
from steptime.train.sampling import SamplingOptions, drawn
from steptime.train.text import Text
from steptime.train.tokenizer import byte_tokenizer
from steptime.train.weights import weights_at
from steptime.workloads.models import Transformer
from steptime.workloads.models.families.llama import LLAMA

BYTES = gpt2(layers=2, heads=2, hidden=32, context=24, vocabulary=256)
LLAMA_BYTES = Transformer(
    name="llama", layers=2, hidden=32, heads=4, kv_heads=2, inner=48, context=24, vocabulary=256,
    architecture=LLAMA,
)  # fmt: skip


@pytest.fixture(scope="module")
def trained(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of one rank on byte pairs learnt from a text, with two checkpoints."""
    folder = tmp_path_factory.mktemp("generate")
    given = {"ranks": 1, "checkpoint_every": 2, "steps": 4, "precision": "fp32", "quiet": True}
    words = tiny(text, **given, tokenizer="bpe", vocabulary=300, out="run")
    ended = forked("train", *words, folder=folder)
    assert ended.code == 0, ended.err
    return folder / "run"


def random_model(config: Transformer, seed: int = 5) -> Decoder:
    generator = torch.Generator().manual_seed(seed)
    model = Decoder(config, generator)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return model.requires_grad_(False)


def refused(*words: str, folder: Path) -> str:
    ended = here("generate", *words, folder=folder)
    assert (ended.code, ended.out) == (2, "")
    return ended.err


def test_a_run_writes_with_its_own_tokenizer_the_same_by_its_seed(trained: Path) -> None:
    def answer(*words: str) -> Ended:
        ended = here("generate", "run", "the ring", *words, folder=trained.parent)
        assert (ended.code, ended.err) == (0, "")
        return ended

    first = answer("--json", "--tokens", "12", "--temperature", "1").json
    assert (first["verb"], first["step"], first["source"]) == ("generate", 4, "measured")
    assert first["weights"].endswith("checkpoint_00000004")
    assert len(first["tokens"]) == 12
    assert max(first["tokens"]) < 300
    again = answer("--json", "--tokens", "12", "--temperature", "1").json
    assert (again["tokens"], again["text"]) == (first["tokens"], first["text"])
    other = answer("--json", "--tokens", "12", "--temperature", "1", "--seed", "1").json
    assert other["tokens"] != first["tokens"]
    printed = answer("--tokens", "12", "--temperature", "1").out
    shown = (one if one.isprintable() or one in "\n\t" else "�" for one in first["text"])
    assert printed == f"the ring{''.join(shown)}\n"


def test_a_checkpoint_an_export_and_the_function_write_the_same(trained: Path) -> None:
    ended = here("export", "run", "--to", "hugging_face", "--json", folder=trained.parent)
    assert (ended.code, ended.err) == (0, "")
    names = {Path(file["path"]).name for file in ended.json["files"]}
    assert names == {"config.json", "model.safetensors", "text.json", "tokenizer.tiktoken"}
    written = [
        st.generate(path, "a rank", tokens=10, temperature=0).tokens
        for path in (trained, trained / "checkpoint_00000004", trained / "export")
    ]
    assert written[0] == written[1] == written[2]
    # Read back, the weights have the same bits as in the checkpoint.
    kept, back = (weights_at(path).tensors() for path in (trained, trained / "export"))
    for unit in weights_at(trained).dimensions().units:
        for tensor in unit.tensors:
            # What pads the vocabulary computes nothing, and is not exported.
            rows = slice(tensor.shape[0])
            assert torch.equal(kept(tensor.name)[rows], back(tensor.name)[rows]), tensor.name


def test_the_newest_whole_checkpoint_is_taken(trained: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    newest = folder / "checkpoint_00000004" / "state_00000.safetensors"
    content = bytearray(newest.read_bytes())
    content[-1] ^= 1
    newest.write_bytes(content)
    assert st.generate(folder, "the", tokens=1).step == 2
    (folder / "checkpoint_00000002" / "DONE").unlink()
    assert "no checkpoint of run is whole" in refused("run", folder=tmp_path)
    (folder / "checkpoint_00000004").rename(tmp_path / "away")
    shutil.rmtree(folder / "checkpoint_00000002")
    assert "run has no checkpoint: train with --checkpoint-every" in refused("run", folder=tmp_path)


@pytest.mark.parametrize("config", [BYTES, LLAMA_BYTES], ids=["gpt2", "llama"])
def test_kept_keys_and_values_change_nothing(config: Transformer) -> None:
    """Against the naive way: each token from the whole of what is in view, without a cache."""
    model, text = random_model(config), by_bytes()
    for window in (24, 7, 1):
        prompt = list(b"hello"[:window])
        writer = Writer(model, text, window)
        scores: list[np.ndarray] = []

        def choose(found: np.ndarray, scores: list[np.ndarray] = scores) -> int:
            scores.append(found)
            return int(found.argmax())

        found = [token for token, _ in zip(writer.tokens(prompt, choose), range(40), strict=False)]
        seen, view = list(prompt), list(prompt)
        for token, cached in zip(found, scores, strict=False):
            naive = model.logits(torch.tensor([view]))[0, -1].numpy()
            np.testing.assert_allclose(cached, naive, rtol=1e-4, atol=1e-4)
            seen.append(token)
            view = [*view, token] if len(view) < window else seen[-max(1, window // 2) :]


def by_bytes() -> Text:
    tokenizer = byte_tokenizer()
    return Text(
        "byte", 256, lambda text: list(text.encode()), tokenizer.decode, None, frozenset([-1])
    )


def test_pieces_are_whole_characters_whatever_comes() -> None:
    text = by_bytes()
    tokens = [*"grün €".encode(), 0xE2, 0x82, 0x41, 0xFF, 0xFF, *"ß".encode(), 0xE2, 0x82]
    pieces = list(text.pieces(list(b"the "), tokens))
    assert "".join(pieces) == "grün €�A��ß�"
    assert pieces[:4] == ["g", "r", "ü", "n"]
    assert pieces[5:7] == ["€", "�A"]
    assert list(text.pieces([], [])) == []


def test_what_is_drawn_is_of_the_likeliest_and_as_often_as_the_model_says() -> None:
    scores = np.log(np.array([0.1, 0.5, 0.15, 0.25]))

    def often(**how: float) -> list[float]:
        generator = np.random.default_rng(1)
        options = SamplingOptions(**{"temperature": 1.0} | how)  # type: ignore[arg-type]
        found = [drawn(scores, options, generator) for _ in range(20_000)]
        return (np.bincount(found, minlength=4) / len(found)).tolist()

    assert often() == pytest.approx([0.1, 0.5, 0.15, 0.25], abs=0.02)
    assert often(temperature=0) == [0, 1, 0, 0]
    assert often(top_k=2) == pytest.approx([0, 2 / 3, 0, 1 / 3], abs=0.02)
    assert often(top_p=0.7) == pytest.approx([0, 2 / 3, 0, 1 / 3], abs=0.02)
    assert often(top_p=0.01) == [0, 1, 0, 0]
    squares = np.array([0.01, 0.25, 0.0225, 0.0625])
    assert often(temperature=0.5) == pytest.approx((squares / squares.sum()).tolist(), abs=0.02)
    assert often(temperature=1e-6) == [0, 1, 0, 0]


def test_weights_of_elsewhere_write_too(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    write_checkpoint(tmp_path / "bytes.bin", random_model(BYTES), "fp32")
    assert len(st.generate(tmp_path / "bytes.bin", "x", tokens=3, temperature=0).tokens) == 3
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1, "?": 2}, "?"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    config = replace(LLAMA_BYTES, vocabulary=5)
    model = random_model(config)
    named = dict(model.named_parameters())
    write_hugging_face(tmp_path, config, named.__getitem__, end_of_text=2)
    (tmp_path / "tokenizer.json").write_text(words.to_str())
    writer = open_writer(weights_at(tmp_path))
    assert writer.prompt("b a") == [2, 1, 0]
    # Of the model's five tokens the tokenizer knows three, of which one ends a text.
    tokens = st.generate(tmp_path, "a", tokens=30, temperature=5.0).tokens
    assert set(tokens) <= {0, 1}
    (tmp_path / "tokenizer.json").unlink()
    with pytest.raises(UsageError, match="nothing in"):
        open_writer(weights_at(tmp_path))


def test_what_a_model_writes_commands_no_terminal(tmp_path: Path) -> None:
    model = random_model(BYTES)
    with torch.no_grad():  # one that writes nothing but escapes
        model.head.ln.weight.zero_()
        model.head.ln.bias.copy_(model.embedding.wte[27] * 100)
    write_checkpoint(tmp_path / "it.bin", model, "fp32")
    words = ("generate", "it.bin", "x", "--tokens", "3", "--temperature", "0")
    assert here(*words, folder=tmp_path).out == "x���\n"
    assert here(*words, "--json", folder=tmp_path).json["text"] == "\x1b\x1b\x1b"


def test_what_cannot_be_is_one_sentence(trained: Path, tmp_path: Path) -> None:
    folder = trained.parent
    assert "no text: it holds bytes that are not UTF-8" in refused("run", "\udcff", folder=folder)
    long = "xyz " * 40
    assert "tokens long, and the model was made for 32: shorten" in refused(
        "run", long, folder=folder
    )
    for words, sentence in (
        (("--tokens", "0"), "--tokens is 0: it must be at least 1"),
        (("--temperature", "-1"), "--temperature is -1.0: it must be at least 0"),
        (("--temperature", "nan"), "--temperature is nan: it must be at least 0"),
        (("--top-k", "0"), "--top-k is 0: it must be at least 1"),
        (("--top-p", "0"), "--top-p is 0.0: it must be above 0 and at most 1"),
        (("--top-p", "nan"), "--top-p is nan: it must be above 0 and at most 1"),
    ):
        assert sentence in refused("run", *words, folder=folder)
    assert "none" in refused("none", folder=folder)
    (tmp_path / "empty").mkdir()
    assert "empty holds no weights: name a run" in refused("empty", folder=tmp_path)
    write_checkpoint(tmp_path / "odd.bin", random_model(replace(BYTES, vocabulary=300)), "fp32")
    assert "tells the tokenizer of its 300 tokens" in refused("odd.bin", folder=tmp_path)
    shutil.copytree(trained, tmp_path / "other")
    pairs = tmp_path / "other" / "tokenizer.tiktoken"
    pairs.write_text(pairs.read_text() + "\n")
    assert "is not the tokenizer that the model was trained with" in refused(
        "other", folder=tmp_path
    )
    kept = json.loads((trained / "text.json").read_text()) | {"tokenizer": None}
    (tmp_path / "other" / "text.json").write_text(json.dumps(kept))
    assert "nothing tells their tokenizer: train on text" in refused("other", folder=tmp_path)


def test_scores_that_are_no_numbers_end_it(tmp_path: Path) -> None:
    model = random_model(BYTES)
    with torch.no_grad():
        model.head.ln.bias.fill_(float("nan"))
    write_checkpoint(tmp_path / "it.bin", model, "fp32")
    ended = here("generate", "it.bin", "x", folder=tmp_path)
    assert (ended.code, ended.out) == (1, "")
    assert "the model's scores are no numbers" in ended.err
