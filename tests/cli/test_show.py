"""The verb show: the rounds in a terminal, as JSON, and a page."""

import os
import pty
import re
from pathlib import Path

import pytest
from command import run
from test_help import read_all
from test_verify import RIGHT, WRONG

from steptime.collectives import all_algorithms


def test_the_ring_in_words_and_as_a_table(tmp_path: Path) -> None:
    ended = run("show", "ring", "--bytes", "64MiB", folder=tmp_path, environ={"COLUMNS": "80"})
    assert (ended.code, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1] == "all_reduce ring, 8 ranks"
    assert "14 rounds; a rank sends 1.75 S and reduces 0.88 S at most." in ended.out
    assert "  0–6 every rank r sends chunk r−t−1 to r+1, which adds it to its own" in ended.out
    assert " 7–13 every rank r sends chunk r−t−1 to r+1, which keeps it" in ended.out
    rows = [line.split() for line in lines if re.match(r" +\d+ →", line)]
    assert len(rows) == 14
    assert rows[0][:5] == ["0", "→1", "c7+", "→2", "c0+"]
    assert rows[13][:5] == ["13", "→1", "c2", "→2", "c3"]


def test_ranks_that_rest_and_ports_in_use(tmp_path: Path) -> None:
    ended = run("show", "broadcast/binomial", "--ranks", "4", "--root", "1", folder=tmp_path)
    assert "broadcast binomial, 4 ranks, root 1" in ended.out
    assert re.search(r"^ +0 · +→3 c0 +· +· +25 %$", ended.out, re.M)
    assert re.search(r"^ +1 · +→2 c0 +· +→0 c0 +50 %$", ended.out, re.M)


@pytest.mark.parametrize("chosen", ["all_reduce", "all_to_all"])
def test_many_ranks_and_rounds_still_fit(chosen: str, tmp_path: Path) -> None:
    names = ",".join(f"{chosen}/{a.name}" for a in all_algorithms() if a.collective.name == chosen)
    words = ("show", names, "--ranks", "48", "--hosts", "5")
    ended = run(*words, folder=tmp_path, environ={"COLUMNS": "80"})
    assert (ended.code, ended.err) == (0, "")
    assert max(map(len, ended.out.splitlines())) <= 80
    assert "⋮" in ended.out
    assert "…" in ended.out


def test_json_holds_every_message(tmp_path: Path) -> None:
    words = ["ring,all_gather/bruck", "--ranks", "5", "--bytes", "5kB", "--alpha", "1us"]
    answer = run("show", *words, "--bandwidth", "1GB/s", "--json", folder=tmp_path).json
    ring, bruck = answer["algorithms"]
    assert (ring["collective"], ring["algorithm"]) == ("all_reduce", "ring")
    assert (bruck["collective"], bruck["algorithm"]) == ("all_gather", "bruck")
    assert len(ring["rounds"]) == 8
    assert ring["rounds"][0][2] == {
        "src": 2,
        "dst": 3,
        "first": 1,
        "into": 1,
        "count": 1,
        "reduce": True,
    }
    assert ring["bytes_sent_per_rank"] == [8000] * 5
    assert ring["source"] == "computed"
    assert ring["time_s"] == pytest.approx(8 * (1e-6 + 1000 / 1e9))


@pytest.mark.parametrize("no_color", [True, False])
def test_what_is_added_and_what_is_copied_differ_in_colour(no_color: bool, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    words = ["show", "ring", "--ranks", "2", *["--no-color"] * no_color]
    ended = run(*words, folder=tmp_path, stdout=theirs, environ={"TERM": "xterm-256color"})
    os.close(theirs)
    assert ended.code == 0
    printed = read_all(ours).decode()
    added = re.findall(r"\x1b\[(\d+)m→1 c1\+", printed)
    copied = re.findall(r"\x1b\[(\d+)m→1 c0", printed)
    if no_color:
        assert "\x1b" not in printed
    else:
        assert added != copied
        assert added and copied


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], r"NAMES"),
        (["ring", "--ranks", "0"], r"at least one rank, not 0"),
        (["broadcast/flat", "--root", "8"], r"the root 8 is no rank"),
        (["chain", "--blocks", "0"], r"at least one block, not 0"),
        (["ring", "--bandwidth", "0GB/s"], r"--bandwidth is 0GB/s: it must be above 0"),
        (["ring", "--bandwidth", "10"], r"'10' is not a rate"),
        (
            ["all_gather/recursive_doubling", "--ranks", "6"],
            r"cannot serve 6 ranks: choose one",
        ),
        (["ring", "--ranks", "65", "--html", "x.html"], r"at most 64 ranks, not 65"),
        (["flat", "--blocks", "4", "--html", "no/x.html"], r"cannot write no/x\.html"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_bad_usage_is_one_sentence(words: list[str], sentence: str, tmp_path: Path) -> None:
    ended = run("show", *words, folder=tmp_path)
    assert ended.code in (1, 2)
    assert ended.out == ""
    assert ended.err.count("\n") == 1
    assert re.search(sentence, ended.err)
    assert not list(tmp_path.iterdir())


def test_a_file_of_ones_own_is_shown_when_it_is_right(tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(RIGHT)
    ended = run("show", "right.py", "--ranks", "3", folder=tmp_path)
    assert ended.code == 0, ended.err
    assert "all_reduce to_all, 3 ranks\nEverybody sends its vector to everybody." in ended.out
    (tmp_path / "wrong.py").write_text(WRONG)
    ended = run("show", "wrong.py", "--ranks", "3", folder=tmp_path)
    assert (ended.code, ended.out) == (1, "")
    assert "'short_ring' is wrong for 3 ranks: chunk 0 of rank 0 lacks the contr" in ended.err


def test_a_page_stays_small_and_asks_for_nothing(tmp_path: Path) -> None:
    words = ["show", "ring,circulant,double_tree", "--ranks", "64", "--html", "a.html"]
    ended = run(*words, folder=tmp_path)
    assert ended.code == 0, ended.err
    assert ended.out.endswith("page: a.html\n")
    page = (tmp_path / "a.html").read_text()
    assert len(page) < 1_000_000
    assert not re.search(r"(src|href)=|https?://|@import|url\(", page)
