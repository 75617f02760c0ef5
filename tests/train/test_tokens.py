import os
import re
import subprocess
import sys
import sysconfig
import zlib
from pathlib import Path

import numpy as np
import pytest

from steptime.errors import UsageError
from steptime.train.options import DataOptions
from steptime.train.shards import write_token_shard
from steptime.train.tokens import check_vocabulary, load_tokens, split_documents


def load(data, **options):
    return load_tokens(DataOptions(data=data, **options))


def write(folder, **texts):
    for name, text in texts.items():
        path = folder / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, newline="")


def gpt2_shard(path, ids):
    write_token_shard(path, np.array(ids, np.uint16))


def refusal(data, **options):
    with pytest.raises(UsageError) as error:
        load(data, **options)
    return str(error.value)


@pytest.fixture(scope="module")
def library():
    return load(None)


def test_default_is_the_standard_library_in_bytes(library):
    assert re.fullmatch(
        r"Python standard library, [\d.]+ MB of text, byte tokens", library.description
    )
    assert library.vocabulary == 256
    assert [tokens.dtype for tokens in library.train + library.validation] == [np.uint8, np.uint8]
    held_out = len(library.validation[0])
    assert 0.01 < held_out / (held_out + len(library.train[0])) < 0.2


def test_default_documents_are_whole_sources_without_their_tests(library):
    stdlib = Path(sysconfig.get_path("stdlib"))
    documents = [
        library.tokenizer.decode(part).split("\0")
        for part in (library.train[0], library.validation[0])
    ]
    train, held_out = ({*part[1:]} for part in documents)
    assert documents[0][0] == documents[1][0] == ""
    assert len(train & held_out) < 3  # the library has a few files twice
    assert (stdlib / "json" / "decoder.py").read_bytes().decode() in train | held_out
    assert (stdlib / "unittest" / "case.py").read_bytes().decode() in train | held_out
    for name in ("idlelib/idle_test/htest.py", "site-packages/pip/__main__.py"):
        path = stdlib / name
        assert not path.exists() or path.read_bytes().decode() not in train | held_out
    assert abs(len(documents[1]) / (len(documents[0]) + len(documents[1])) - 0.05) < 0.01


def test_every_process_loads_the_same(library):
    program = (
        "import zlib; from steptime.train.options import DataOptions;"
        "from steptime.train.tokens import load_tokens; tokens = load_tokens(DataOptions());"
        "print([zlib.crc32(part) for part in tokens.train + tokens.validation])"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True
    )
    again = load(None)
    assert [p.tobytes() for p in again.train] == [p.tobytes() for p in library.train]
    assert done.stdout.strip() == str([zlib.crc32(p) for p in library.train + library.validation])


def test_loading_needs_no_torch():
    program = (
        "import sys, steptime.train.data;"
        "print(sorted({'torch', 'tokenizers', 'tiktoken'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_a_file_holds_out_its_end(tmp_path):
    text = "".join(chr(ord("a") + i % 26) for i in range(1000))
    write(tmp_path, story=text)
    tokens = load(tmp_path / "story.txt")
    assert tokens.train[0].tobytes().decode() == "\0" + text[:950]
    assert tokens.validation[0].tobytes().decode() == "\0" + text[950:]
    assert tokens.description == f"{tmp_path / 'story.txt'}, 1.00 kB of text, byte tokens"


def test_line_ends_are_the_file_s_own(tmp_path):
    write(tmp_path, story="a\r\nb\rc\n")
    assert load(tmp_path / "story.txt").train[0].tobytes() == b"\0a\r\nb\rc\n"


def test_a_folder_is_read_sorted_and_deep_without_hidden_files(tmp_path):
    write(tmp_path, **{"b/x": "2", "a": "1", "c": "3", "empty": "", ".hidden": "4", ".git/x": "5"})
    assert load(tmp_path).train[0].tobytes() == b"\0" + b"\0".join([b"1", b"2", b"3"])


def test_a_folder_of_many_documents_holds_out_every_twentieth(tmp_path):
    write(tmp_path, **{f"{i:02}": f"text {i}" for i in range(45)})
    tokens = load(tmp_path)
    assert tokens.validation[0].tobytes() == b"\0text 10\0text 30"
    assert tokens.train[0].tobytes().count(b"\0") == 43


@pytest.mark.parametrize("count", [1, 2, 10, 11, 19, 20, 21, 40, 60])
def test_split_loses_and_repeats_nothing(count):
    documents = [f"{i:04}" * 40 for i in range(count)]
    train, held_out = split_documents(documents)
    assert held_out
    assert sorted("".join(train + held_out)) == sorted("".join(documents))
    assert len("".join(held_out)) <= 0.1 * len("".join(documents))
    if count >= 20:
        assert sorted(train + held_out) == documents


def test_bpe_learns_from_the_training_text_alone(tmp_path):
    write(tmp_path, story="abcd " * 190 + "wxyz " * 10)
    tokens = load(tmp_path, tokenizer="bpe", vocabulary=300)
    learnt = {tokens.tokenizer.decode([i]).strip() for i in range(tokens.vocabulary)}
    assert "abcd" in learnt
    assert "wxyz" not in learnt
    assert tokens.train[0][0] == tokens.validation[0][0] == tokens.tokenizer.end_of_text
    assert tokens.tokenizer.decode(tokens.validation[0][1:]) == "wxyz " * 10
    assert tokens.vocabulary == tokens.tokenizer.vocabulary < 300
    assert tokens.description.endswith("bpe tokens")


def test_a_single_shard_holds_out_its_end(tmp_path):
    path = tmp_path / "x.bin"
    gpt2_shard(path, range(100))
    tokens = load(path)
    assert isinstance(tokens.train[0], np.memmap)
    assert tokens.train[0].tolist() == list(range(95))
    assert tokens.validation[0].tolist() == list(range(95, 100))
    assert (tokens.vocabulary, tokens.tokenizer) == (50257, None)
    assert tokens.description == f"{path}, 100 GPT-2 tokens"


def test_shards_named_val_are_held_out(tmp_path):
    for i, name in enumerate(["a_train_1", "a_train_0", "a_val_0"]):
        gpt2_shard(tmp_path / f"{name}.bin", [i] * 3)
    write(tmp_path, readme="not read")
    tokens = load(tmp_path, tokenizer="gpt2")
    assert [part.tolist() for part in tokens.train] == [[1, 1, 1], [0, 0, 0]]
    assert [part.tolist() for part in tokens.validation] == [[2, 2, 2]]


def test_the_first_of_shards_without_val_is_held_out(tmp_path):
    for name in "cab":
        write_token_shard(tmp_path / f"{name}.bin", np.array([ord(name)] * 2, np.uint32))
    tokens = load(tmp_path)
    assert [part[0] for part in tokens.train] == [ord("b"), ord("c")]
    assert [part[0] for part in tokens.validation] == [ord("a")]
    assert tokens.vocabulary == 128256
    assert tokens.description == f"{tmp_path}, 6 Llama 3 tokens"


def test_nanogpt_folder_is_taken_as_it_is(tmp_path):
    np.array([1, 2, 50256], "<u2").tofile(tmp_path / "train.bin")
    np.array([3, 50256], "<u2").tofile(tmp_path / "val.bin")
    tokens = load(tmp_path)
    assert [part.tolist() for part in tokens.train + tokens.validation] == [
        [1, 2, 50256],
        [3, 50256],
    ]


def test_refuses_shards_of_two_vocabularies(tmp_path):
    gpt2_shard(tmp_path / "a.bin", [1])
    write_token_shard(tmp_path / "b.bin", np.array([1], np.uint32))
    assert refusal(tmp_path).startswith(f"{tmp_path} mixes shards of GPT-2 and Llama 3 tokens")


def test_refuses_a_folder_that_is_all_validation(tmp_path):
    for i in range(2):
        gpt2_shard(tmp_path / f"val_{i}.bin", [1])
    assert f"every shard in {tmp_path} has val" in refusal(tmp_path)


def test_refuses_a_damaged_shard_by_name(tmp_path):
    gpt2_shard(tmp_path / "a.bin", [1, 2])
    (tmp_path / "b.bin").write_bytes((tmp_path / "a.bin").read_bytes()[:-1])
    assert refusal(tmp_path).startswith(f"{tmp_path / 'b.bin'} is damaged")


@pytest.mark.parametrize(
    ("content", "at"),
    [(b"seventeen letters\xff\xfe", 17), ("utf-16".encode("utf-16-le"), 1), (b"\xc3\xa9 \0", 3)],
)
def test_refuses_what_is_not_utf8_by_name_and_byte(tmp_path, content, at):
    write(tmp_path, good="text")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "x.dat").write_bytes(content)
    assert refusal(tmp_path).startswith(
        f"{tmp_path / 'deep' / 'x.dat'} is not UTF-8 text at byte {at}: "
    )


def test_refuses_what_is_missing(tmp_path):
    for name in ("gone", "gone.bin", "gone/deeper.txt"):
        told = refusal(tmp_path / name)
        assert told.startswith("cannot read ")
        assert f"{tmp_path / name}: No such file" in told


def test_refuses_what_is_empty(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    file = tmp_path / "file.txt"
    file.touch()
    assert refusal(folder).startswith(f"{folder} holds no text")
    assert refusal(file).startswith(f"{file} holds no text")
    (folder / "x.bin").touch()
    assert refusal(folder) == f"{folder / 'x.bin'} holds no tokens"


def test_refuses_what_cannot_be_read(tmp_path):
    memory = tmp_path / "memory.txt"
    memory.symlink_to("/proc/self/mem")
    assert f"cannot read the text {memory}: " in refusal(tmp_path)
    assert refusal(tmp_path / ("x" * 5000)).startswith("cannot read ")
    assert refusal(Path(os.devnull)).startswith("/dev/null is neither a file nor a folder")


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_refuses_what_is_forbidden(tmp_path):
    secret = tmp_path / "secret"
    write(secret, x="text")
    secret.chmod(0)
    try:
        for data in (tmp_path, secret, secret / "x.txt", secret / "x.bin"):
            assert "Permission denied" in refusal(data)
    finally:
        secret.chmod(0o700)


def test_refuses_a_vocabulary_beyond_the_model_s(tmp_path):
    gpt2_shard(tmp_path / "x.bin", range(40))
    tokens = load(tmp_path / "x.bin")
    check_vocabulary(tokens, 50257)
    check_vocabulary(tokens, 50304)
    with pytest.raises(UsageError, match=r"x\.bin.*50,257.*model's has 256"):
        check_vocabulary(tokens, 256)
