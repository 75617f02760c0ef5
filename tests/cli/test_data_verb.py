"""``steptime data prepare``, and ``steptime train`` on what it made."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from command import Ended, here, options, tiny

from forked import forked
from steptime.train.shards import write_token_shard

PREPARE = ("data", "prepare", "stories.jsonl", "--vocabulary", "300", "--shard-tokens", "4096")


@pytest.fixture
def folder(tmp_path: Path, text: Path) -> Path:
    """A folder with stories, and what is made of them in ``out``."""
    rows = (json.dumps({"text": story}) for story in text.read_text().split("ring "))
    (tmp_path / "stories.jsonl").write_text("\n".join(rows))
    ended = here(*PREPARE, "--out", "out", folder=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    return tmp_path


def train(folder: Path, **given: object) -> Ended:
    return here("train", *tiny(Path("out"), ranks=2, out="run", **given), folder=folder)


def test_it_answers_a_person_and_a_program(folder: Path) -> None:
    first = here(*PREPARE, "--out", "again", "--json", folder=folder).json
    assert (first["verb"], first["tokenizer"], first["vocabulary"]) == ("data", "bpe", 300)
    assert first["train_tokens"] + first["validation_tokens"] == first["new_tokens"] > 4096
    assert sorted(first["shards"]) == sorted(path.name for path in (folder / "again").glob("*.bin"))
    told = here(*PREPARE, "--out", "again", folder=folder).out
    assert "1 file, " in told
    assert f"{first['train_tokens']:,} tokens to train on in " in told
    assert "all of them were here already" in told
    assert told.endswith("steptime train --data again\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("data", "prepare"), "nothing says what to prepare"),
        (("data", "prepare", "stories.jsonl"), "nothing says where to: give --out"),
        (("data", "prepare", "gone.txt", "--out", "new"), "gone.txt: No such file"),
        ((*PREPARE, "--out", "out", "--field", "story"), "out holds data prepared otherwise"),
        ((*PREPARE, "--out", "."), "holds other files, as out"),
    ],
)
def test_bad_usage_is_one_sentence(words: tuple[str, ...], sentence: str, folder: Path) -> None:
    ended = here(*words, "--json", folder=folder)
    assert ended.code == 2
    assert sentence in ended.json["error"]
    assert sorted(path.name for path in folder.iterdir()) == ["out", "stories.jsonl"]


def damage(shard: Path) -> None:
    shard.write_bytes(shard.read_bytes()[:-2] + b"\0\1")


def outside(shard: Path) -> None:
    tokens = np.memmap(shard, np.uint16, "r", 1024)
    write_token_shard(shard, np.array([*tokens[:-1], 300], np.uint16))


def unfinished(shard: Path) -> None:
    (shard.parent / "index.json").rename(shard.parent / ".unfinished.json")


def newer(shard: Path) -> None:
    index = shard.parent / "index.json"
    index.write_text(index.read_text().replace('"version": 1', '"version": 2'))


def elsewhere(shard: Path) -> None:
    index = shard.parent / "index.json"
    index.write_text(index.read_text().replace('"train_000001.bin"', '"../train_000001.bin"'))


@pytest.mark.parametrize(
    ("change", "given", "sentence"),
    [
        (None, {"tokenizer": "byte"}, "out is prepared with --tokenizer bpe, and byte is asked"),
        (None, {"vocabulary": 4096}, "prepared with a vocabulary of 300, and 4,096 is asked for"),
        (None, {"batch": 2000}, "is too short"),
        (Path.unlink, {}, "cannot read the token shard out/train_000001.bin: No such file"),
        (damage, {}, "out/train_000001.bin is not the shard that index.json tells of"),
        (outside, {}, "it holds the id 300, and bpe in out's vocabulary ends at 299"),
        (unfinished, {}, "out is not prepared to its end"),
        (newer, {}, "it is of version 2, and 1 is known here"),
        (elsewhere, {}, "the shard '../train_000001.bin' is not in its folder"),
    ],
)
def test_what_cannot_be_trained_on_is_refused_before_ranks_start(
    change: Callable[[Path], None] | None, given: dict[str, object], sentence: str, folder: Path
) -> None:
    if change:
        change(folder / "out" / "train_000001.bin")
    ended = train(folder, **given)
    assert ended.code == 2
    assert sentence in ended.err
    assert ended.err.count("\n") == 1
    assert not (folder / "run").exists()


def test_weights_of_another_vocabulary_are_refused_before_ranks_start(
    folder: Path, weights: Path
) -> None:
    words = options(data="out", init=weights, ranks=2, batch=4, steps=2, out="run")
    ended = here("train", *words, folder=folder)
    assert ended.code == 2
    assert "of a vocabulary of 300, and the model's has 256" in ended.err
    assert not (folder / "run").exists()


def test_it_is_trained_on(folder: Path) -> None:
    words = tiny(Path("out"), ranks=2, tokenizer="bpe", vocabulary=300, out="run", json=True)
    ended = forked("train", *words, folder=folder)
    assert (ended.code, ended.json["verb"]) == (0, "train")
    assert " bpe tokens; " in ended.err
