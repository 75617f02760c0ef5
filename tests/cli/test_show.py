"""The verb show: the rounds in a terminal, as JSON, and a page."""

import json
import os
import pty
import re
from pathlib import Path

import pytest
from command import here, run
from test_help import read_all
from test_verify import RIGHT, WRONG

from steptime.collectives import all_algorithms


def test_the_ring_in_words_and_as_a_table(tmp_path: Path) -> None:
    ended = here("show", "ring", "--bytes", "64MiB", folder=tmp_path)
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
    ended = here("show", "broadcast/binomial", "--ranks", "4", "--root", "1", folder=tmp_path)
    assert "broadcast binomial, 4 ranks, root 1" in ended.out
    assert re.search(r"^ +0 · +→3 c0 +· +· +25 %$", ended.out, re.M)
    assert re.search(r"^ +1 · +→2 c0 +· +→0 c0 +50 %$", ended.out, re.M)


@pytest.mark.parametrize("chosen", ["all_reduce", "all_to_all"])
def test_many_ranks_and_rounds_still_fit(chosen: str, tmp_path: Path) -> None:
    names = ",".join(f"{chosen}/{a.name}" for a in all_algorithms() if a.collective.name == chosen)
    words = ("show", names, "--ranks", "48", "--hosts", "5")
    ended = here(*words, folder=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert max(map(len, ended.out.splitlines())) <= 80
    assert "⋮" in ended.out
    assert "…" in ended.out


def test_json_holds_every_message(tmp_path: Path) -> None:
    words = ["ring,all_gather/bruck", "--ranks", "5", "--bytes", "5kB", "--alpha", "1us"]
    answer = here("show", *words, "--bandwidth", "1GB/s", "--json", folder=tmp_path).json
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
        (["ring", "--cluster", "dgx-h10"], r"no cluster is called 'dgx-h10'.*did you mean"),
        (["ring", "--cluster", "dgx-h100", "--ranks", "9"], r"9 ranks do not fit on dgx-h100"),
        (["ring", "--cluster", "dgx-h100", "--hosts", "2"], r"--hosts is given, and --cluster"),
        (["ring", "--chart", "x.html", "--bytes", "1MiB"], r"--chart is of all sizes"),
        (["barrier", "--chart", "x.html"], r"a barrier has no sizes"),
        (["ring,broadcast", "--chart", "x.html"], r"of one collective, not of all_reduce, broad"),
        (["ring", "--ranks", "1", "--chart", "x.html"], r"some times are 0"),
        (["ring", "--chart", "no/x.html"], r"cannot write no/x\.html"),
        (["ring", "--chart", "x", "--cluster", "dgx-h100", "--alpha", "1us"], r"drop --alpha and"),
        (["ring", "--ranks", "100000"], r"the ring of 100,000 ranks has more than 4,000,000 trans"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_bad_usage_is_one_sentence(words: list[str], sentence: str, tmp_path: Path) -> None:
    ended = here("show", *words, folder=tmp_path)
    assert ended.code in (1, 2)
    assert ended.out == ""
    assert ended.err.count("\n") == 1
    assert re.search(sentence, ended.err)
    assert not list(tmp_path.iterdir())


def test_a_file_of_ones_own_is_shown_when_it_is_right(tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(RIGHT)
    ended = here("show", "right.py", "--ranks", "3", folder=tmp_path)
    assert ended.code == 0, ended.err
    assert "all_reduce to_all, 3 ranks\nEverybody sends its vector to everybody." in ended.out
    (tmp_path / "wrong.py").write_text(WRONG)
    ended = here("show", "wrong.py", "--ranks", "3", folder=tmp_path)
    assert (ended.code, ended.err) == (1, "")
    assert "It is wrong for 3 ranks; ✗ marks where:" in ended.out
    assert "rank 0, chunk 1, round 2: lacks the contribution of ranks 0, 2" in ended.out
    assert re.search(r"^ +1 .*✗→", ended.out, re.M)
    ended = here("show", "wrong.py", "--ranks", "3", "--html", "a.html", "--json", folder=tmp_path)
    assert ended.code == 1
    assert json.loads(ended.out)["algorithms"][0]["findings"][1]["round"] == 2
    assert "It is wrong on 3 ranks" in (tmp_path / "a.html").read_text()
    ended = here("show", "wrong.py", "--chart", "b.html", "--ranks", "3", folder=tmp_path)
    assert (ended.code, ended.out) == (1, "")
    assert "'short_ring' is wrong for 3 ranks: chunk 0 of rank 0 lacks" in ended.err


def test_a_page_stays_small_and_asks_for_nothing(tmp_path: Path) -> None:
    words = ["show", "ring,circulant,double_tree", "--ranks", "64", "--html", "a.html"]
    ended = here(*words, folder=tmp_path)
    assert ended.code == 0, ended.err
    assert ended.out.endswith("page: a.html\n")
    page = (tmp_path / "a.html").read_text()
    assert len(page) < 1_000_000
    assert not re.search(r"(src|href)=|https?://|@import|url\(", page)


def test_simulated_times_stand_beside_the_computed_ones(tmp_path: Path) -> None:
    """On one NVSwitch a round is two latencies and the bytes; the table has every round."""
    words = ["show", "ring", "--cluster", "dgx-h100", "--bytes", "8MiB"]
    ended = here(*words, folder=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert max(map(len, ended.out.splitlines())) <= 80
    assert "1.54 ms at α = 5.00 µs, 10 GB/s (computed)." in " ".join(ended.out.split())
    assert re.search(r"on dgx-h100, 1 host \(simulated\); host0: device0 → NVSwitch", ended.out)
    rows = re.findall(r"^ +(\d+) +[\d.]+ (?:µs|s) +[\d.]+ µs +host0: .* %$", ended.out, re.M)
    assert rows == [str(number) for number in range(14)]


def test_json_holds_every_simulated_message(tmp_path: Path) -> None:
    words = ["show", "two_level", "--cluster", "marenostrum5-nine", "--ranks", "9", "--json"]
    shown = here(*words, folder=tmp_path).json["algorithms"][0]
    simulated = shown["simulated"]
    assert (shown["source"], simulated["source"]) == ("computed", "simulated")
    assert shown["hosts"] == [1, 1, 2, 2, 3, 3, 4, 4, 0]
    messages = simulated["messages"]
    pairs = [
        {(t["src"], t["dst"]) for t in transfers if t["src"] != t["dst"]}
        for transfers in shown["rounds"]
    ]
    assert [(m["round"], m["src"], m["dst"]) for m in messages] != []
    for number, expected in enumerate(pairs):
        assert {(m["src"], m["dst"]) for m in messages if m["round"] == number} == expected
    assert max(m["received_s"] for m in messages) <= simulated["time_s"]
    assert all(m["sent_s"] < m["received_s"] for m in messages)
    assert simulated["busiest_link"].startswith("host0")


def test_a_chart_tells_who_is_the_fastest_where(tmp_path: Path) -> None:
    words = ["show", "all_reduce", "--chart", "chart.html"]
    ended = here(*words, folder=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert max(map(len, ended.out.splitlines())) <= 80
    assert "\nrecursive_doubling:0-118KiB;circulant:118KiB-max\n" in ended.out
    assert ended.out.endswith("page: chart.html\n")
    page = (tmp_path / "chart.html").read_text()
    assert not re.search(r"<(script|link|img)[^>]*(src|href)=", page)


def test_a_chart_on_a_cluster_is_simulated(tmp_path: Path) -> None:
    """On two hosts of eight the two-level all_reduce wins at large sizes."""
    words = ["show", "recursive_doubling,ring,two_level", "--ranks", "16", "--chart", "chart.html"]
    chart = here(*words, "--cluster", "dgx-h100-pod", "--json", folder=tmp_path).json["chart"]
    assert chart["source"] == "simulated"
    assert list(chart["algorithms"]) == ["recursive_doubling", "ring", "two_level"]
    assert re.fullmatch(r"recursive_doubling:0-\w+;two_level:\w+-max", chart["selection"])
    assert len(chart["crossovers_bytes"]) == 1
    for one in chart["algorithms"].values():
        assert len(one["time_s"]) == len(chart["bytes"])
        assert sorted(one["time_s"]) == one["time_s"]
        assert 1 < one["half_latency_bytes"] < chart["bytes"][-1]
