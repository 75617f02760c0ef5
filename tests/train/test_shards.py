import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptime.errors import UsageError
from steptime.train.shards import (
    check_token_ids,
    open_token_shard,
    read_token_shard,
    shard_vocabulary,
    write_token_shard,
)


def shard(magic, version, count, body):
    return struct.pack("<256i", magic, version, count, *[0] * 253) + body


def test_gpt2_shard_is_llmc_s_byte_for_byte(tmp_path):
    path = tmp_path / "gpt2.bin"
    write_token_shard(path, np.array([50256, 1, 258], np.uint16))
    assert path.read_bytes() == shard(20240520, 1, 3, struct.pack("<3H", 50256, 1, 258))
    assert [file.name for file in tmp_path.iterdir()] == ["gpt2.bin"]


def test_llama3_shard_is_llmc_s_byte_for_byte(tmp_path):
    path = tmp_path / "llama3.bin"
    write_token_shard(path, np.array([128000, 1], np.uint32))
    assert path.read_bytes() == shard(20240801, 7, 2, struct.pack("<2I", 128000, 1))


def test_byte_tokens_are_written_as_uint16(tmp_path):
    path = tmp_path / "bytes.bin"
    write_token_shard(path, np.array([0, 255], np.uint8))
    assert path.read_bytes()[1024:] == struct.pack("<2H", 0, 255)


@pytest.mark.parametrize(
    ("magic", "version", "body", "dtype", "vocabulary"),
    [
        (20240520, 1, struct.pack("<3H", 7, 0, 50256), np.uint16, ("GPT-2", 50257)),
        (20240801, 7, struct.pack("<3I", 7, 0, 128255), np.uint32, ("Llama 3", 128256)),
    ],
)
def test_reads_what_llmc_writes_without_copying_it(
    tmp_path, magic, version, body, dtype, vocabulary
):
    path = tmp_path / "x.bin"
    path.write_bytes(shard(magic, version, 3, body))
    tokens = read_token_shard(path)
    assert isinstance(tokens, np.memmap)
    assert tokens.dtype == dtype
    assert tokens.tolist() == [7, 0, vocabulary[1] - 1]
    assert shard_vocabulary(tokens) == vocabulary
    assert open_token_shard(path).tolist() == tokens.tolist()
    check_token_ids(path)


@given(
    st.sampled_from([np.uint16, np.uint32]).flatmap(
        lambda t: st.lists(st.integers(0, np.iinfo(t).max), min_size=1, max_size=50).map(
            lambda ids: np.array(ids, t)
        )
    )
)
def test_what_is_written_is_read(tmp_path_factory, tokens):
    path = tmp_path_factory.mktemp("shards") / "x.bin"
    write_token_shard(path, tokens)
    read = read_token_shard(path)
    assert read.dtype == tokens.dtype
    assert read.tolist() == tokens.tolist()


@pytest.mark.parametrize("tokens", [np.zeros((2, 2), np.uint16), np.zeros(2, np.int64)])
def test_refuses_to_write_what_is_no_shard(tmp_path, tokens):
    with pytest.raises(ValueError, match="1-D"):
        write_token_shard(tmp_path / "x.bin", tokens)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (shard(20240326, 3, 2, b"\1\0\2\0"), "magic is 20240326"),
        (shard(20240522, 1, 2, b"\1\0\2\0"), "magic is 20240522"),
        (shard(20240520, 2, 2, b"\1\0\2\0"), "version 2"),
        (shard(20240801, 1, 1, b"\1\0\0\0"), "version 1, and only version 7"),
        (shard(20240520, 1, 2, b"\1\0\2"), "1,027 bytes, and a header of 2 tokens asks for 1,028"),
        (shard(20240520, 1, 2, b"\1\0\2\0\3\0"), "1,030 bytes"),
        (shard(20240801, 7, 2, b"\1\0\2\0"), "asks for 1,032"),
        (shard(20240520, 1, -1, b""), "damaged"),
        (shard(20240520, 1, -512, b"")[:1024], "damaged"),
        (shard(20240520, 1, 0, b""), "holds no tokens"),
        (shard(20240520, 1, 2, b"")[:100], "cut off: 100 bytes"),
        (b"", "holds no tokens"),
        (b"abc", "3 bytes are not a whole number"),
    ],
)
def test_refuses_damaged_shards_by_name(tmp_path, content, wrong):
    path = tmp_path / "damaged.bin"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=wrong) as error:
        open_token_shard(path)
    assert str(path) in str(error.value)


def test_read_token_shard_refuses_nanogpt_s(tmp_path):
    path = tmp_path / "x.bin"
    path.write_bytes(np.zeros(600, "<u2").tobytes())
    with pytest.raises(UsageError, match="magic is 0"):
        read_token_shard(path)


def test_refuses_a_missing_shard_by_name(tmp_path):
    with pytest.raises(UsageError, match=r"cannot read .*gone\.bin: No such file"):
        open_token_shard(tmp_path / "gone.bin")


def test_nanogpt_shard_has_no_header(tmp_path):
    path = tmp_path / "train.bin"
    np.array([50256, 0, 11], "<u2").tofile(path)
    tokens = open_token_shard(path)
    assert isinstance(tokens, np.memmap)
    assert tokens.tolist() == [50256, 0, 11]


def test_refuses_ids_beyond_the_vocabulary(tmp_path):
    path = tmp_path / "noise.bin"
    np.array([1, 50257], "<u2").tofile(path)
    with pytest.raises(UsageError, match=r"noise\.bin .* id 50257.*ends at 50256"):
        check_token_ids(path)
