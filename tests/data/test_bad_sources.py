"""What was wrong with the sources of others: each in one sentence that names the file."""

import gzip
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet
from stories import contents, stories

from steptime.data.options import PrepareOptions
from steptime.data.prepare import prepare
from steptime.errors import SteptimeError, UsageError

TEXT = "\n<|endoftext|>\n".join(stories(400))
FULL = """
import resource, sys
from steptime.cli import main

resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))
sys.argv = ["steptime", *sys.argv[1:]]
sys.exit(main())
"""
"""A disk without room: no file may be larger than 60 kB."""


def refusal(source: Path, **options: object) -> str:
    given: dict[str, object] = {"tokenizer": "byte", "shard_tokens": 8192, **options}
    out = source.parent / "out"
    with pytest.raises(UsageError) as error:
        prepare([source], out, PrepareOptions(**given))
    assert not (out / "index.json").exists()
    told = str(error.value)
    assert str(source) in told
    assert "\n" not in told
    return told


def cut_gzip(path: Path) -> None:
    path.write_bytes(gzip.compress(TEXT.encode())[:-100])


def zipped(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("story.txt", TEXT)


def cut_zstd(path: Path) -> None:
    with pyarrow.CompressedOutputStream(str(path), "zstd") as file:
        file.write(TEXT.encode())
    path.write_bytes(path.read_bytes()[:-20])


def cut_parquet(path: Path) -> None:
    parquet.write_table(pyarrow.table({"text": stories(9)}), path)
    path.write_bytes(path.read_bytes()[:-20])


def other_columns(path: Path) -> None:
    parquet.write_table(pyarrow.table({"id": [1, 2], "story": ["a", "b"]}), path)


def number_column(path: Path) -> None:
    parquet.write_table(pyarrow.table({"text": [1, 2]}), path)


def holding(content: bytes) -> Callable[[Path], None]:
    return lambda path: path.write_bytes(content) and None


def lines(*rows: object) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


GOOD = lines({"text": "once"})
BAD = {
    "a cut gzip": ("a.txt.gz", cut_gzip, "end-of-stream"),
    "a zip called gz": ("a.txt.gz", zipped, "is no gz file: its first bytes are others"),
    "an error page called gz": ("a.jsonl.gz", holding(b"<html>404"), "is no gz file"),
    "a tar in gzip": ("a.tar.gz", holding(gzip.compress(b"a\0\0b" * 99)), "is no text: a NUL"),
    "a cut zstd": ("a.txt.zst", cut_zstd, "Truncated"),
    "a cut parquet": ("a.parquet", cut_parquet, "arquet"),
    "no such column": ("a.parquet", other_columns, "no column 'text': choose one of id, story"),
    "a column of numbers": ("a.parquet", number_column, "no text in its column 'text' but int64"),
    "no JSON": ("a.jsonl", holding(GOOD + b'{"text": "o'), f"line at byte {len(GOOD)}: no JSON"),
    "no field": ("a.jsonl", holding(GOOD + lines({"story": "once"})), f"byte {len(GOOD)}"),
    "a number": ("a.jsonl", holding(lines({"text": 3})), "Expected `str`, got `int`"),
    "Latin-1 in JSON": ("a.jsonl", holding(b'{"text": "caf\xe9"}\n'), "byte 0"),
    "no UTF-8": ("a.txt", holding(b"once\xff"), "is not UTF-8 text at byte 4"),
    "UTF-16": ("a.txt", holding("once".encode("utf-16-le")), "is no text: a NUL character"),
    "empty": ("a.txt", holding(b""), "is empty"),
    "blank lines": ("a.jsonl", holding(b"\n\n"), "their documents are empty"),
    "separators": ("a.txt", holding(b"<|endoftext|>\n" * 3), "their documents are empty"),
    "missing": ("gone.txt", lambda _: None, "No such file"),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_sources_are_refused_by_name(bad: str, tmp_path: Path) -> None:
    name, write, wrong = BAD[bad]
    write(tmp_path / name)
    assert wrong in refusal(tmp_path / name)
    assert not (tmp_path / "out").exists() or "index.json" not in contents(tmp_path / "out")


def test_a_byte_that_is_wrong_far_behind_is_named(tmp_path: Path) -> None:
    content = TEXT.encode() + b"\xff"
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(content))
    assert f"not UTF-8 text at byte {len(content) - 1:,}" in refusal(tmp_path / "a.txt.gz")


def test_a_pipe_and_an_empty_folder_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not even a file" in refusal(tmp_path / "pipe")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "a.txt").touch()
    assert "holds no text" in refusal(tmp_path / "empty")
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_what_is_forbidden_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    (tmp_path / "a.txt").chmod(0)
    assert "Permission denied" in refusal(tmp_path / "a.txt")


def test_a_line_of_json_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.jsonl.gz", "wb", 1) as file:
        file.write(b'{"text": "')
        for _ in range(33):
            file.write(b"once " * (1 << 18))
    assert "a line of JSON is longer than 16 MiB" in refusal(tmp_path / "a.jsonl.gz")


def test_what_needs_a_library_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.parquet", "a.jsonl.zst"):
        (tmp_path / name).write_bytes(b"PAR1")
        with monkeypatch.context() as patched:
            patched.setitem(sys.modules, "pyarrow", None)
            assert "pip install 'steptime[parquet]'" in refusal(tmp_path / name)


def test_a_full_disk_is_one_sentence_and_room_is_all_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    words = ["data", "prepare", "a.txt", "--tokenizer", "byte", "--out", "out"]
    done = subprocess.run(
        [sys.executable, "-c", FULL, *words], cwd=tmp_path, capture_output=True, text=True
    )
    sentence = "steptime: cannot write to out: File too large; once that is mended, the same"
    assert (done.returncode, done.stderr[: len(sentence)]) == (1, sentence)
    assert done.stderr.count("\n") == 1
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".unfinished.json"]
    monkeypatch.chdir(tmp_path)
    prepare([Path("a.txt")], Path("out"), PrepareOptions(tokenizer="byte"))
    assert sorted(contents(Path("out"))) == [
        "index.json",
        "train_000000.bin",
        "validation_000000.bin",
    ]


def test_a_source_that_is_mended_before_a_shard_is_whole_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"once\xff")
    refusal(tmp_path / "a.txt", shard_tokens=1024)
    (tmp_path / "a.txt").write_text(TEXT)
    options = PrepareOptions(tokenizer="byte")
    assert prepare([tmp_path / "a.txt"], tmp_path / "out", options).train_tokens > 100_000


def test_a_folder_that_cannot_be_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    options = PrepareOptions(tokenizer="byte")
    with pytest.raises(SteptimeError, match="cannot write to the output folder"):
        prepare([tmp_path / "a.txt"], tmp_path / "a.txt" / "out", options)


def test_bad_options_are_refused() -> None:
    for given, wrong in (
        ({"validation": 0.0}, "--validation is 0.0"),
        ({"validation": 2.0}, "--validation is 2.0"),
        ({"shard_tokens": 3}, "--shard-tokens is 3: it must be at least 1024"),
        ({"jobs": 0}, "--jobs is 0"),
        ({"tokenizer": "byte", "vocabulary": 500}, "--vocabulary is that of a bpe"),
    ):
        with pytest.raises(UsageError, match=wrong):
            PrepareOptions(**given)
