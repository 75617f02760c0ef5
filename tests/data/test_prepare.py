"""Sources become shards: nothing lost, the same bytes on every way, in little memory."""

import gzip
import hashlib
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stories import contents, stories, write_every_kind

from steptime.data.options import PrepareOptions
from steptime.data.prepare import Prepared, Progress, prepare
from steptime.data.sources import blocks_of, find_sources
from steptime.errors import UsageError
from steptime.train.prepared import INDEX, TRAIN, VALIDATION, open_prepared, prepared_tokenizer

SMALL = 4096  # tokens of a shard, and so some 2 kB of a block

KILLED = """
import os, signal, sys
from pathlib import Path
from steptime.data.options import PrepareOptions
from steptime.data.prepare import prepare

sources, out, left = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])

def kill_at(event, _):
    global left
    if event == "os.rename":
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(kill_at)
prepare([sources], out, PrepareOptions(vocabulary=300, shard_tokens=16384, jobs=2))
"""
"""Killed before the n-th file gets its name: a whole temporary one lies there."""

PEAK = """
import sys
from pathlib import Path
from steptime.data.options import PrepareOptions
from steptime.data.prepare import prepare

options = PrepareOptions(tokenizer="byte", shard_tokens=1 << 23, jobs=2)
prepare([Path("line.txt.gz")], Path("out"), options)
print(*(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
"""The peak since exec: what getrusage tells of a child begins with the memory of its parent."""


def made(sources: Path, out: Path, **options: object) -> Prepared:
    given: dict[str, object] = {"tokenizer": "byte", "shard_tokens": SMALL, "jobs": 2}
    return prepare([sources], out, PrepareOptions(**given | options))


def documents(out: Path) -> dict[str, list[str]]:
    """The documents of each kind of shard, in order."""
    index, tokens = open_prepared(out)
    decode = prepared_tokenizer(out, index).decode
    found = {}
    for kind, arrays in tokens.items():
        ids = np.concatenate(arrays)
        assert ids[0] == index.end_of_text
        starts = np.flatnonzero(ids == index.end_of_text)
        found[kind] = [decode(part[1:]) for part in np.split(ids, starts[1:])]
    return found


@pytest.mark.parametrize("tokenizer", ["byte", "bpe"])
def test_every_format_loses_no_document_and_holds_one_in_twenty_out(
    tokenizer: str, tmp_path: Path
) -> None:
    texts = stories(600)
    write_every_kind(tmp_path / "sources", texts)
    prepared = made(tmp_path / "sources", tmp_path / "out", tokenizer=tokenizer)
    found = documents(tmp_path / "out")
    assert sorted(found[TRAIN] + found[VALIDATION]) == sorted(texts)
    assert [text for text in texts if text in set(found[TRAIN])] == found[TRAIN]
    assert 15 <= len(found[VALIDATION]) <= 45
    for shard in prepared.index.shards:
        content = (tmp_path / "out" / shard.name).read_bytes()
        assert shard.tokens <= SMALL
        assert len(content) == 1024 + 2 * shard.tokens
        assert hashlib.sha256(content).hexdigest() == shard.sha256
    assert [shard.name for shard in prepared.index.of_kind(TRAIN)] == [
        f"train_{i:06}.bin" for i in range(len(prepared.index.of_kind(TRAIN)))
    ]
    assert len(prepared.index.of_kind(TRAIN)) > 5


def test_the_number_of_threads_changes_no_byte(tmp_path: Path) -> None:
    write_every_kind(tmp_path / "sources", stories(300))
    outs = [tmp_path / name for name in "abc"]
    for out, jobs in zip(outs, (1, 2, 5), strict=True):
        made(tmp_path / "sources", out, tokenizer="bpe", vocabulary=300, jobs=jobs)
    assert contents(outs[0]) == contents(outs[1]) == contents(outs[2])


@pytest.mark.slow
def test_what_is_killed_anywhere_goes_on_to_the_same_bytes(tmp_path: Path) -> None:
    sources, options = tmp_path / "sources", {"tokenizer": "bpe", "vocabulary": 300}
    write_every_kind(sources, stories(1000))
    made(sources, tmp_path / "whole", shard_tokens=16384, **options)
    whole, kept = contents(tmp_path / "whole"), set()
    for death in range(1, 100):
        out = tmp_path / f"out{death}"
        words = [sys.executable, "-c", KILLED, str(sources), str(out), str(death)]
        code = subprocess.run(words).returncode
        if code == 0:
            break
        assert code == -signal.SIGKILL
        kept.add(len(list(out.glob("train_*.bin"))))
        made(sources, out, shard_tokens=16384, **options)
        assert contents(out) == whole
    assert kept == set(range(sum(name.startswith("train_") for name in whole) + 1))


def test_what_is_whole_is_kept_and_what_is_damaged_is_made_again(tmp_path: Path) -> None:
    write_every_kind(tmp_path / "sources", stories(600))
    out = tmp_path / "out"
    first = made(tmp_path / "sources", out)
    whole = contents(out)
    again = made(tmp_path / "sources", out)
    assert (again.index, again.progress.new_tokens) == (first.index, 0)
    damaged = out / first.index.of_kind(TRAIN)[2].name
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\1")
    kept = first.index.shards[0]
    before = (out / kept.name).stat()
    again = made(tmp_path / "sources", out)
    assert contents(out) == whole
    assert (out / kept.name).stat().st_ino == before.st_ino
    assert 0 < again.progress.new_tokens < first.progress.new_tokens


@pytest.mark.slow
def test_a_line_that_does_not_end_needs_less_memory_than_it_has_bytes(tmp_path: Path) -> None:
    size = 1 << 28
    with gzip.open(tmp_path / "line.txt.gz", "wb", 1) as file:
        for _ in range(size >> 20):
            file.write(b"once upon a time " * ((1 << 20) // 17))
    done = subprocess.run(
        [sys.executable, "-c", PEAK], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert 1024 * int(done.stdout) < size


def test_too_few_documents_hold_their_ends_out(tmp_path: Path) -> None:
    (tmp_path / "story.txt").write_text("abcdefghij" * 40)
    made(tmp_path / "story.txt", tmp_path / "out")
    assert documents(tmp_path / "out") == {
        TRAIN: ["abcdefghij" * 38],
        VALIDATION: ["abcdefghij" * 2],
    }


def test_a_long_text_is_cut_between_words(tmp_path: Path) -> None:
    text = " ".join(stories(100))
    (tmp_path / "story.txt").write_text(text)
    made(tmp_path / "story.txt", tmp_path / "out")
    found = documents(tmp_path / "out")
    parts = found[TRAIN] + found[VALIDATION]
    assert len(parts) > 10
    assert sum(map(len, parts)) == len(text)
    assert set(" ".join(parts).split()) == set(text.split())


@settings(max_examples=60)
@given(
    st.text(st.sampled_from("ab \n<|é☕😀"), max_size=6000),
    st.integers(64, 300),
    st.data(),
)
def test_blocks_are_the_whole_text_and_begin_again_anywhere(
    tmp_path_factory: pytest.TempPathFactory, text: str, size: int, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("text") / "story.txt"
    path.write_bytes(text.encode() + b"x")
    sources = find_sources([path])
    blocks = list(blocks_of(sources, "text", size))
    joined = [block.content for block in blocks if isinstance(block.content, bytes)]
    assert b"".join(joined) == path.read_bytes()
    assert max(map(len, joined)) <= size
    for part in joined:
        part.decode()
    start = data.draw(st.integers(0, len(blocks) - 1))
    assert list(blocks_of(sources, "text", size, blocks[start].place)) == blocks[start:]


def test_blocks_of_packed_files_begin_again_too(tmp_path: Path) -> None:
    write_every_kind(tmp_path / "sources", stories(300))
    sources = find_sources([tmp_path / "sources"])
    blocks = list(blocks_of(sources, "text", 2048))
    assert {block.place.source for block in blocks} == set(range(6))
    for start in range(0, len(blocks), 7):
        rest = list(blocks_of(sources, "text", 2048, blocks[start].place))
        shown = [(block.place, block.content) for block in rest]
        assert shown == [(block.place, block.content) for block in blocks[start:]]


def test_progress_ends_where_the_sources_do(tmp_path: Path) -> None:
    (tmp_path / "story.txt").write_text("\n<|endoftext|>\n".join(stories(300)))
    seen: list[Progress] = []
    options = PrepareOptions(tokenizer="byte", shard_tokens=SMALL)
    prepared = prepare([tmp_path / "story.txt"], tmp_path / "out", options, seen.append)
    size = (tmp_path / "story.txt").stat().st_size
    assert (seen[-1].done_bytes, seen[-1].total_bytes, seen[-1].remaining_s) == (size, size, 0)
    assert [one.new_tokens for one in seen] == sorted(one.new_tokens for one in seen)
    assert seen[-1].new_tokens == sum(shard.tokens for shard in prepared.index.shards)


def test_other_options_are_refused_in_a_folder_that_was_begun(tmp_path: Path) -> None:
    text = tmp_path / "story.txt"
    text.write_text("\n<|endoftext|>\n".join(stories(100)))
    made(text, tmp_path / "out")
    before = contents(tmp_path / "out")
    with pytest.raises(UsageError, match=r"prepared otherwise \(shard_tokens\)"):
        made(text, tmp_path / "out", shard_tokens=8192)
    text.write_text("another story, of another length")
    with pytest.raises(UsageError, match=r"prepared otherwise \(sources\)"):
        made(text, tmp_path / "out")
    assert contents(tmp_path / "out") == before
    (tmp_path / "out" / INDEX).unlink()
    with pytest.raises(UsageError, match=r"holds other files, as train_000000\.bin"):
        made(text, tmp_path / "out")
