import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from steptime.errors import SteptimeError, UsageError
from steptime.files import (
    bounded_bytes,
    bounded_text,
    parsed_json,
    parsed_xml,
    reading,
    write_json,
)


def test_a_text_file_is_read_whole(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text("größe = 1\n")
    assert bounded_text(path, "model file") == "größe = 1\n"
    assert bounded_text(path, "model file", most=len("größe = 1\n".encode())) == "größe = 1\n"


def test_what_is_no_text_file_of_that_size_is_refused(tmp_path):
    path = tmp_path / "a.toml"
    with pytest.raises(UsageError, match=r"cannot read the model file .*a.toml: No such file"):
        bounded_text(path, "model file")
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="it is no text"):
        bounded_text(path, "model file")
    path.write_text("x" * 11)
    with pytest.raises(UsageError, match="more than 10 bytes"):
        bounded_text(path, "model file", most=10)
    with pytest.raises(UsageError, match="Is a directory"):
        bounded_text(tmp_path, "model file")


@pytest.mark.timeout(300)
def test_a_pipe_that_nobody_writes_to_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="not even a file"):
        bounded_text(tmp_path / "pipe", "model file")


def test_what_a_packed_file_holds_is_bounded(tmp_path):
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(bytes(1 << 20)))
    assert bounded_bytes(path, "trace", 1 << 20) == bytes(1 << 20)
    with pytest.raises(UsageError, match="more than 1,000,000 bytes"):
        bounded_bytes(path, "trace", 1_000_000)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UsageError, match=r"cannot read the trace .*a.gz: Compressed file ended"):
        bounded_bytes(path, "trace", 1 << 20)


def test_what_unpacks_to_far_more_than_it_is_stays_packed(tmp_path):
    path = tmp_path / "bomb.json.gz"
    with gzip.open(path, "wb", compresslevel=6) as file:
        for _ in range(80):
            file.write(bytes(1 << 20))
    with pytest.raises(UsageError, match="it has more than 67,108,864 bytes"):
        bounded_bytes(path, "trace", 1 << 32)


def test_a_device_that_never_ends_is_refused():
    with pytest.raises(UsageError, match="not even a file"):
        bounded_bytes(Path("/dev/zero"), "cluster file", 1 << 40)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ('{"a":' * 100_000, "cannot read the trace x: it is nested too deeply; run it again"),
        ("{", "cannot read the trace x: it is no JSON "),
        ('{"a": NaN}', "it is no JSON"),
        ('{"a": 1e999}', "out of range"),
        ('{"a": "text"}', "Expected `int`, got `str`"),
        ("[]", "Expected `object`, got `array`"),
    ],
)
def test_whatever_is_wrong_with_a_file_is_one_sentence(content, sentence):
    of: type = dict[str, Any] if content.startswith('{"a":{') else dict[str, int]
    with pytest.raises(UsageError) as refused, reading("x", "trace", "run it again"):
        parsed_json(content, of)
    assert sentence in str(refused.value)


def test_a_reason_is_short_and_on_one_line():
    with pytest.raises(UsageError) as refused, reading("x", "trace"):
        raise ValueError("line\n" * 10_000)
    assert len(str(refused.value)) < 400
    assert "\n" not in str(refused.value)


def test_what_a_reader_lacks_is_named():
    with pytest.raises(UsageError, match="it lacks 'ts'"), reading("x", "trace"):
        raise KeyError("ts")


def test_xml_with_a_document_type_is_refused_and_its_entities_are_not_expanded():
    with pytest.raises(ValueError, match="declares a document type"):
        parsed_xml('<!DOCTYPE a [<!ENTITY b "bb">]><a>&b;</a>')


def test_no_json_is_written_of_numbers_that_json_has_not(tmp_path):
    with pytest.raises(SteptimeError, match="infinite or no number"):
        write_json(tmp_path / "run.json", {"a": float("nan")})
    assert not list(tmp_path.iterdir())


def test_a_device_is_written_to_and_not_replaced(tmp_path):
    device = tmp_path / "null"
    device.symlink_to("/dev/null")
    write_json(device, {"a": 1})
    assert device.is_symlink()
