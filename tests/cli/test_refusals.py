"""What cannot be done is refused in one sentence and leaves nothing."""

import json
import os
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from command import Ended, here, options, run, tiny

from forked import forked

GIVEN = {"ranks": 2, "json": True, "out": "run"}
NO_MODEL = {"layers": None, "heads": None, "hidden": None}


def refused(ended: Ended, code: int, sentence: str, folder: Path) -> None:
    """One sentence, on stderr and as JSON, and no file."""
    assert ended.code == code, ended.err
    error = ended.json["error"]
    assert ended.json == {"error": error}
    assert ended.err == f"steptime: {error}\n"
    assert sentence in error
    assert not [path for path in folder.glob("run/**/*") if path.is_file()]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"strategies": "server,nonesuch"}, "there is no strategy 'nonesuch'; choose from server"),
        ({"strategies": ""}, "there is no strategy ''"),
        ({"model": "gpt5"}, "there is no model 'gpt5'; choose one of nano"),
        ({"stepz": 3}, "--stepz"),
        ({"steps": "many"}, "--steps"),
        ({"steps": 0}, "--steps is 0: it must be at least 1"),
        ({"warmup": -1}, "--warmup is -1"),
        ({"ranks": 0}, "--ranks is 0: it must be at least 1"),
        ({"ranks": -1}, "--ranks is -1: it must be at least 1"),
        ({"threads": 0}, "--threads is 0: it must be at least 1"),
        ({"timeout": "0s"}, "--timeout is 0s"),
        ({"timeout": "1e400s"}, "'1e400s' is too long: a time is at most 1e+09 s"),
        ({"timeout": "5"}, "'5' is not a time"),
        ({"backend": "mpi"}, "--backend"),
        ({"batch": 3}, "--batch 3 does not divide among 2 ranks"),
        ({"batch": 0}, "--batch is 0: it must be at least 1"),
        ({"accumulate": 0}, "--accumulate is 0: it must be at least 1"),
        ({"accumulate": 3}, "--batch 4 does not divide among 2 ranks of 3 micro-batches"),
        ({"bucket": 0}, "--bucket is 0"),
        ({"bucket": 25}, "'25' says no unit: write it as 25MiB, or 25B for bytes"),
        ({"bucket": "1XB"}, "'1XB' is not a size"),
        ({"lr": "nan"}, "--lr is nan"),
        ({"lr": 0}, "--lr is 0.0: it must be above 0"),
        ({"lr_warmup": -1}, "--lr-warmup is -1"),
        ({"clip": -1}, "--clip is -1.0"),
        ({"clip": "inf"}, "--clip is inf"),
        ({"weight_decay": "nan"}, "--weight-decay is nan"),
        ({"seed": -1}, "--seed is -1"),
        (
            {"seed": 2**64},
            "--seed is 18446744073709551616: it must be at most 18,446,744,073,709,551,615",
        ),
        ({"precision": "fp8"}, "--precision"),
        ({"heads": 3}, "3 heads do not divide the hidden size 32"),
        ({"layers": 0}, "--layers is 0: it must be at least 1"),
        ({"tokens": 0}, "--tokens is 0: it must be at least 1"),
        ({"tokens": 100_000_000}, "rows of 100,000,000"),
        ({"batch": 1_000_000}, "is too short"),
        ({"turns": 0}, "--turns is 0: it must be at least 1"),
        ({"turns": 99, "steps": 2}, "--turns is 99 and --steps is 2: give fewer turns"),
        ({"turns": 7, "see": "5%"}, "--turns is 7, and --see takes 8 to know how many it needs"),
        ({"see": "0%"}, "--see is 0%, which no number of turns would show: write more, as 5%"),
        ({"within": "1min"}, "--within is about --see, and there is none: leave it out"),
        ({"see": "5%", "within": "0s"}, "--within is no time at all: write more, as 10min"),
        ({"see": "5%", "within": "10"}, "'10' is not a time"),
        ({"see": "5"}, "--see is '5': write a percentage from 0 up, as 5%"),
        ({"tokenizer": "words"}, "--tokenizer"),
        ({"tokenizer": "bpe", "vocabulary": 5}, "--vocabulary is 5"),
    ],
    ids=lambda value: " ".join(options(**value)) if isinstance(value, dict) else "",
)
def test_options(given: dict[str, object], sentence: str, text: Path, tmp_path: Path) -> None:
    ended = here("compare", *tiny(text, **(GIVEN | given)), folder=tmp_path)
    refused(ended, 2, sentence, tmp_path)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"strategy": "nonesuch"}, "there is no strategy 'nonesuch'"),
        ({"steps": 0}, "--steps is 0: it must be at least 1"),
        ({"val_every": 0}, "--val-every is 0"),
        ({"val_batches": 0}, "--val-batches is 0"),
        ({"checkpoint_every": 0}, "--checkpoint-every is 0"),
        ({"compile": "perhaps"}, "--compile"),
        ({"resume": "nowhere"}, "there is no checkpoint nowhere"),
        ({"resume": "."}, ". is no complete checkpoint: it has no file DONE"),
        ({"init": "nowhere.bin", **NO_MODEL}, "cannot read the checkpoint nowhere.bin"),
        ({"init": "notes.bin", **NO_MODEL}, "notes.bin is no llm.c checkpoint"),
        ({"init": "notes.bin"}, "notes.bin has dimensions of its own: leave out --layers"),
    ],
    ids=lambda value: " ".join(options(**value)) if isinstance(value, dict) else "",
)
def test_options_of_train(
    given: dict[str, object], sentence: str, text: Path, tmp_path: Path
) -> None:
    (tmp_path / "notes.bin").write_text("no weights" * 200)
    ended = here("train", *tiny(text, **(GIVEN | given)), folder=tmp_path)
    refused(ended, 2, sentence, tmp_path)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["conpare"], 'Unknown command "conpare". Did you mean "compare"?'),
        (["compare", "gpt5"], "there is no model 'gpt5'"),
        (["compare", "deepseek-v3"], "'deepseek-v3' cannot be trained here"),
        (["compare", "gpt2-124M", "--model", "nano"], "are two models: leave one out"),
        (["compare", "gpt2", "gpt2"], "Unused Tokens: ['gpt2']"),
    ],
)
def test_words(words: list[str], sentence: str, text: Path, tmp_path: Path) -> None:
    refused(here(*words, *tiny(text, **GIVEN), folder=tmp_path), 2, sentence, tmp_path)


def shard(magic: int, version: int, tokens: int, body: bytes) -> bytes:
    header = np.zeros(256, "<i4")
    header[:3] = magic, version, tokens
    return header.tobytes() + body


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("missing.txt", None, "cannot read missing.txt: No such file or directory"),
        ("empty.txt", b"", "empty.txt holds no text"),
        ("short.txt", b"a few words", "short.txt, 11 B of text, is too short"),
        ("latin1.txt", "ein Mädchen ".encode("latin1") * 999, "latin1.txt is not UTF-8 text at"),
        ("folder/", None, "folder holds no text"),
        ("missing.bin", None, "cannot read the token shard missing.bin: No such file or directory"),
        ("empty.bin", b"", "empty.bin holds no tokens"),
        ("magic.bin", shard(20240521, 1, 4, bytes(8)), "its magic is 20240521"),
        ("version.bin", shard(20240520, 9, 4, bytes(8)), "a token shard of version 9"),
        ("cut.bin", shard(20240520, 1, 5000, bytes(8)), "cut.bin is damaged: 1,032 bytes"),
        ("odd.bin", bytes(9999), "odd.bin is no token shard"),
        ("ids.bin", b"\xff\xff" * 9999, "it holds the id 65535"),
    ],
    ids=lambda value: value if isinstance(value, str) and "." in value else "",
)
def test_data(name: str, content: bytes | None, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if name.endswith("/"):
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    ended = here("compare", *tiny(Path(name), **GIVEN), folder=tmp_path)
    refused(ended, 2, sentence, tmp_path)


def test_tokens_that_the_weights_do_not_know(weights: Path, shards: Path, tmp_path: Path) -> None:
    words = tiny(shards, **GIVEN, **NO_MODEL, init=weights, quiet=True)
    sentence = "are of a vocabulary of 50,257, and the model's has 256"
    refused(here("train", *words, folder=tmp_path), 2, sentence, tmp_path)


def test_weights_that_are_cut_off(weights: Path, text: Path, tmp_path: Path) -> None:
    (tmp_path / "cut.bin").write_bytes(weights.read_bytes()[:-4])
    words = tiny(text, **GIVEN, **NO_MODEL, init="cut.bin")
    refused(here("train", *words, folder=tmp_path), 2, "cut.bin is damaged", tmp_path)


def test_gpt2s_tokenizer_without_its_files(text: Path, tmp_path: Path) -> None:
    words = tiny(text, **GIVEN, tokenizer="gpt2")
    ended = forked("compare", *words, folder=tmp_path, environ={"TIKTOKEN_CACHE_DIR": "."})
    refused(ended, 2, "GPT-2's vocabulary is not in tiktoken's cache", tmp_path)


@pytest.mark.parametrize(("out", "reason"), [("run", "File exists"), ("run/a", "Not a directory")])
def test_a_file_where_the_folder_should_be(
    out: str, reason: str, text: Path, tmp_path: Path
) -> None:
    (tmp_path / "run").write_text("in the way")
    ended = here("compare", *tiny(text, **(GIVEN | {"out": out})), folder=tmp_path)
    refused(ended, 2, f"cannot write to the output folder {out}: {reason}", tmp_path)


@pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="this machine has a GPU")
def test_nccl_without_a_gpu(text: Path, tmp_path: Path) -> None:
    words = tiny(text, **(GIVEN | {"ranks": 1}), backend="nccl")
    ended = forked("compare", *words, folder=tmp_path)
    refused(ended, 2, "the backend nccl needs a GPU for every rank", tmp_path)


@pytest.fixture
def busy_port() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield str(server.getsockname()[1])


def test_a_port_that_is_taken(busy_port: str, text: Path, tmp_path: Path) -> None:
    environ = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1"}
    environ |= {"MASTER_PORT": busy_port}
    ended = forked("train", *tiny(text, json=True, out="run"), folder=tmp_path, environ=environ)
    sentence = f"rank 0 cannot listen on port {busy_port} of "
    refused(ended, 2, sentence, tmp_path)


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({"RANK": "0"}, "RANK but not WORLD_SIZE and LOCAL_RANK and MASTER_ADDR and MASTER_PORT"),
        ({"PMI_RANK": "2", "PMI_SIZE": "2"}, "mpirun numbers this process rank 2 of 2 ranks"),
        ({"PMI_RANK": "0", "PMI_SIZE": "two"}, "the environment sets PMI_SIZE to 'two'"),
    ],
    ids=str,
)
def test_an_environment_that_makes_no_sense(
    environ: dict[str, str], sentence: str, text: Path, tmp_path: Path
) -> None:
    ended = forked("train", *tiny(text, json=True, out="run"), folder=tmp_path, environ=environ)
    refused(ended, 2, sentence, tmp_path)


def test_a_loss_that_is_no_number_is_a_failure(text: Path, tmp_path: Path) -> None:
    words = tiny(text, **(GIVEN | {"lr": 1e30, "steps": 5, "strategies": "replicated"}))
    sentence = "the loss under replicated is no number any more: try a smaller --lr"
    refused(forked("compare", *words, folder=tmp_path), 1, sentence, tmp_path)


def test_a_model_that_no_memory_holds(text: Path, tmp_path: Path) -> None:
    words = tiny(text, **(GIVEN | {"ranks": 1, "hidden": 10_000_000, "strategies": "server"}))
    ended = forked("compare", *words, folder=tmp_path)
    refused(ended, 2, "of memory are free here: choose a smaller model", tmp_path)


@pytest.mark.slow
def test_a_disk_that_fills_up_leaves_whole_files(text: Path, tmp_path: Path) -> None:
    words = tiny(text, **(GIVEN | {"ranks": 1, "strategies": "server"}))
    limit = (8192, 8192)  # bytes of a file: less than the report's
    ended = run(
        "compare",
        *words,
        folder=tmp_path,
        environ={"PYTHONDONTWRITEBYTECODE": "1"},  # Python would keep modules cut off at the limit
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )
    assert ended.code == 1
    assert ended.json == {
        "error": "cannot write the run to run: File too large; choose another folder with --out"
    }
    assert ended.err == f"steptime: {ended.json['error']}\n"
    left = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert left == ["program.json.gz", "run.json", "trace.json.gz"]
    assert json.loads((tmp_path / "run" / "run.json").read_text())["verb"] == "compare"


@pytest.mark.slow
def test_a_reader_that_leaves(text: Path, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = run("train", *tiny(text, ranks=2), folder=tmp_path, stdout=writer)
    os.close(writer)
    assert (ended.code, ended.err) == (141, "")  # as SIGPIPE would end it, and without a word


def test_a_terminal_that_knows_no_unicode_gets_an_answer(text: Path, tmp_path: Path) -> None:
    environ = {"PYTHONIOENCODING": "ascii"}
    ended = forked("train", *tiny(text, ranks=1), folder=tmp_path, environ=environ)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.isascii()
