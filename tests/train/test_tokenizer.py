import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steptime.errors import UsageError
from steptime.train.options import DataOptions
from steptime.train.tokenizer import (
    byte_tokenizer,
    check_tokenizer,
    gpt2_tokenizer,
    make_tokenizer,
    train_bpe,
)

TEXTS = [
    "the cat sat on the mat\n" * 20,
    "def f(x):\n    return x + 1\n" * 20,
    "naïve café ☕ 你好",
]


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_bytes_come_back(text):
    tokenizer = byte_tokenizer()
    ids = tokenizer.encode(text)
    assert ids.dtype == tokenizer.dtype == np.uint8
    assert ids.tolist() == list(text.encode())
    assert tokenizer.decode(ids) == text


def test_byte_vocabulary_is_exactly_256():
    assert byte_tokenizer().vocabulary == 256
    assert byte_tokenizer().end_of_text == 0


def test_half_a_character_decodes_to_a_replacement():
    assert byte_tokenizer().decode([0xC3]) == "\ufffd"


def test_bpe_learns_the_same_from_the_same_text():
    first, second = (train_bpe(TEXTS, 300) for _ in range(2))
    for text in TEXTS:
        assert first.encode(text).tolist() == second.encode(text).tolist()
    every = np.arange(first.vocabulary)
    assert [first.decode([i]) for i in every] == [second.decode([i]) for i in every]


def test_bpe_reaches_the_vocabulary_asked_for_and_shortens_text():
    tokenizer = train_bpe(TEXTS, 300)
    ids = tokenizer.encode(TEXTS[0])
    assert tokenizer.vocabulary == 300
    assert ids.dtype == tokenizer.dtype == np.uint16
    assert ids.max() < 300
    assert len(ids) < len(TEXTS[0]) / 2


def test_bpe_of_short_text_has_the_tokens_it_found():
    tokenizer = train_bpe(["ab"], 4096)
    assert tokenizer.vocabulary == 258
    assert len(tokenizer.encode("ab")) == 1


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_bpe_gives_any_text_back(text):
    tokenizer = train_bpe(TEXTS, 300)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_bpe_gives_long_text_back():
    tokenizer = train_bpe(TEXTS, 300)
    text = "".join(TEXTS) * 3000 + "no newline at the end"
    assert len(text) > 2**21
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_no_text_encodes_to_the_end_of_a_text():
    tokenizer = train_bpe([*TEXTS, "<|endoftext|>" * 50], 300)
    text = "a<|endoftext|>b"
    assert tokenizer.end_of_text not in tokenizer.encode(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.decode([tokenizer.end_of_text]) == "<|endoftext|>"


def test_a_bpe_smaller_than_its_bytes_is_refused():
    with pytest.raises(UsageError, match=r"--vocabulary is 256.*at least 257"):
        check_tokenizer(DataOptions(tokenizer="bpe", vocabulary=256))
    with pytest.raises(UsageError, match="--vocabulary is 256"):
        train_bpe(TEXTS, 256)


@pytest.mark.parametrize(("tokenizer", "library"), [("bpe", "tokenizers"), ("gpt2", "tiktoken")])
def test_says_how_to_install_what_is_missing(monkeypatch, tokenizer, library):
    monkeypatch.setitem(sys.modules, library, None)
    options = DataOptions(tokenizer=tokenizer)
    for attempt in (check_tokenizer, lambda options: make_tokenizer(options, TEXTS)):
        with pytest.raises(UsageError, match=rf"{library}: pip install 'steptime\[bpe\]'"):
            attempt(options)


def test_bytes_need_no_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    check_tokenizer(DataOptions())
    assert make_tokenizer(DataOptions(), []).name == "byte"


def test_gpt2_names_the_files_it_lacks(monkeypatch, tmp_path):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    for attempt in (gpt2_tokenizer, lambda: check_tokenizer(DataOptions(tokenizer="gpt2"))):
        with pytest.raises(UsageError) as error:
            attempt()
        for part in (
            "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/vocab.bpe",
            "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/encoder.json",
            str(tmp_path / "6d1cbeee0f20b3d9449abfede4726ed8212e3aee"),
            str(tmp_path / "6c7ea1a7e38e3a7f062df639a5b80947f075ffe6"),
            "TIKTOKEN_CACHE_DIR",
        ):
            assert part in str(error.value)


def test_gpt2_refuses_damaged_files_before_tiktoken_fetches_them_anew(monkeypatch, tmp_path):
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    damaged = tmp_path / "6d1cbeee0f20b3d9449abfede4726ed8212e3aee"
    damaged.write_bytes(b"an error page")
    with pytest.raises(UsageError, match=r"vocab\.bpe as"):
        gpt2_tokenizer()
    assert damaged.read_bytes() == b"an error page"


def test_gpt2_looks_where_tiktoken_looks(monkeypatch, tmp_path):
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    monkeypatch.setenv("DATA_GYM_CACHE_DIR", str(tmp_path / "gym"))
    with pytest.raises(UsageError, match=str(tmp_path / "gym")):
        gpt2_tokenizer()
    monkeypatch.delenv("DATA_GYM_CACHE_DIR")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    with pytest.raises(UsageError, match=str(tmp_path / "temporary" / "data-gym-cache")):
        gpt2_tokenizer()
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    with pytest.raises(UsageError, match="switched off"):
        gpt2_tokenizer()


def gpt2_is_at_hand():
    try:
        check_tokenizer(DataOptions(tokenizer="gpt2"))
    except UsageError:
        return False
    return True


@pytest.mark.skipif(not gpt2_is_at_hand(), reason="GPT-2's vocabulary is not in tiktoken's cache")
def test_gpt2_encodes_as_gpt2_does():
    tokenizer = make_tokenizer(DataOptions(tokenizer="gpt2"), [])
    assert (tokenizer.vocabulary, tokenizer.end_of_text) == (50257, 50256)
    assert tokenizer.encode("Once upon a time").tolist() == [7454, 2402, 257, 640]
    assert tokenizer.encode("").dtype == tokenizer.dtype == np.uint16
    for text in [*TEXTS, "a<|endoftext|>b"]:
        assert tokenizer.end_of_text not in tokenizer.encode(text)
        assert tokenizer.decode(tokenizer.encode(text)) == text
