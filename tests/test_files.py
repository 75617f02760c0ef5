import gzip
import os

import pytest

from steptime.errors import UsageError
from steptime.files import bounded_bytes, bounded_text


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
    with pytest.raises(UsageError, match="not even a file"):
        bounded_text(tmp_path, "model file")


@pytest.mark.timeout(20)
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
