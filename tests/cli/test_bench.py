"""The verb bench as its users run it."""

import csv
import json
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from cli.command import HANG_S, MPIEXEC, here, run, started, within
from forked import forked

ON_MPI = pytest.mark.skipif(not MPIEXEC, reason="there is no mpiexec")
THREE = ("--ranks", "3", "-n", "4")
HALF = {"time_us", "algbw_GBps", "busbw_GBps", "wrong"}
BROKEN = """
from steptime.collectives import algorithm, send

@algorithm("all_reduce")
def lazy(ranks):
    "Everyone sends to rank 0, and nobody hears of it again."
    for rank in range(1, ranks):
        yield send(rank, 0, 0, ranks, reduce=True)
"""


def test_gloo_in_json_and_csv(tmp_path):
    words = (
        "bench -b 16 -e 64K -f 64 -n 3 -w 1 --ranks 2 --algorithms ring,builtin --json --csv r.csv"
    )
    ended = forked(*words.split(), folder=tmp_path)
    assert ended.code == 0, ended.err
    result = ended.json
    rows = result["rows"]
    assert [(r["size_bytes"], r["algorithm"]) for r in rows] == [
        (size, name) for size in (16, 1024, 65536) for name in ("ring", "builtin")
    ]
    for row in rows:
        assert {k: row[k] for k in ("backend", "op", "dtype", "redop", "ranks", "source")} == {
            "backend": "gloo",
            "op": "all_reduce",
            "dtype": "float32",
            "redop": "sum",
            "ranks": 2,
            "source": "measured",
        }
        assert row["count"] == row["size_bytes"] // 4
        for half in (row["out_of_place"], row["in_place"]):
            assert set(half) == HALF
            assert half["wrong"] == 0
            algbw = row["size_bytes"] / half["time_us"] / 1e3
            assert half["algbw_GBps"] == pytest.approx(algbw)
            assert half["busbw_GBps"] == pytest.approx(algbw * 2 * (2 - 1) / 2)
        assert 0 < row["p50_us"] <= row["p99_us"]
        assert row["cv"] >= 0
        assert (row["predicted_us"] is None) == (row["algorithm"] == "builtin")
    assert set(result["fits"]) == {"ring", "builtin"}
    assert result["fits"]["ring"]["alpha_us"] >= 0
    assert json.loads((tmp_path / result["run"] / "run.json").read_text()) == result
    assert "Out of bounds values : 0 OK" in ended.err
    with (tmp_path / "r.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [float(line["out_of_place_time_us"]) for line in lines] == [
        row["out_of_place"]["time_us"] for row in rows
    ]
    assert [[float(line["ci99_low"]), float(line["ci99_high"])] for line in lines] == [
        row["ci99"] for row in rows
    ]


def test_algorithms_take_turns_and_one_is_the_fastest_only_where_that_is_told(tmp_path):
    words = "bench -b 1K -e 64K -f 64 -n 6 --turns 3 --seed 7 --algorithms ring,builtin,circulant"
    ended = forked(*words.split(), "--json", "--ranks", "2", folder=tmp_path)
    assert ended.code == 0, ended.err
    result = ended.json
    names = {"ring", "builtin", "circulant"}
    orders = [turn["order"] for one in result["contests"] for turn in one["turns"]]
    assert len(orders) == 2 * 3
    assert all(set(order) == names for order in orders)
    assert len({tuple(order) for order in orders}) > 1, "the order is drawn anew for each turn"
    for contest in result["contests"]:
        rows = {
            row["algorithm"]: row
            for row in result["rows"]
            if row["size_bytes"] == contest["size_bytes"]
        }
        for name, ratio in contest["ratios"].items():
            assert rows[name]["against_best"] == ratio["against_best"] >= 1
            assert rows[name]["ci99"] == ratio["ci99"]
            times = [turn["time_us"][name] for turn in contest["turns"]]
            assert rows[name]["out_of_place"]["time_us"] == pytest.approx(sum(times) / 3)
        level = {n for n, ratio in contest["ratios"].items() if ratio["ci99"][0] <= 1}
        best = next(n for n, ratio in contest["ratios"].items() if ratio["against_best"] == 1)
        assert level - {best} == set(contest["level_with"])
        told = f"{best} is level with" if contest["level_with"] else f"{best} is the fastest;"
        assert f": {told}" in ended.err
        assert contest["winner"] == (None if contest["level_with"] else best)


def test_it_goes_on_until_a_difference_is_seen(tmp_path):
    words = "bench -b 4 -e 4 --see 5% --turns 9 --algorithms ring,builtin --json"
    ended = forked(*words.split(), "--ranks", "2", folder=tmp_path)
    assert ended.code == 0, ended.err
    (contest,) = ended.json["contests"]
    assert len(contest["turns"]) in (8, 9), "8 are the least that tell whether they suffice"


def test_no_turn_begins_when_the_time_is_over(tmp_path):
    words = "bench -b 4 -e 4 --see 0.01% --within 1us --algorithms ring,builtin --json"
    ended = forked(*words.split(), "--ranks", "2", folder=tmp_path)
    assert ended.code == 0, ended.err
    (contest,) = ended.json["contests"]
    assert len(contest["turns"]) == 1


def test_the_columns_are_those_of_nccl_tests(tmp_path):
    ended = forked(
        "bench", "all_gather", "-b", "1K", "-e", "64K", "-d", "double", *THREE, folder=tmp_path
    )
    assert ended.code == 0, ended.err
    lines = ended.out.splitlines()
    names = next(line for line in lines if "algbw" in line and "size" in line)
    half = ["time", "algbw", "busbw", "#wrong"]
    assert names.lstrip("#").split()[:13] == [
        "size",
        "count",
        "type",
        "redop",
        "root",
        *half,
        *half,
    ]
    units = lines[lines.index(names) + 1]
    pair = ["(us)", "(GB/s)", "(GB/s)"]
    assert units.lstrip("#").split()[:8] == ["(B)", "(elements)", *pair, *pair]
    for line in (line for line in lines if line and line[0] == " "):
        size, count, dtype, redop, root, time, algbw, busbw, wrong = line.split()[:9]
        assert int(size) == int(count) * 3 * 8
        assert (dtype, redop, root, wrong) == ("double", "none", "-1", "0")
        rate = int(size) / float(time) / 1e3
        assert float(algbw) == pytest.approx(rate, abs=0.02)
        assert float(busbw) == pytest.approx(rate * 2 / 3, abs=0.02)
        for end in (12, 26):  # the first fields are as wide as nccl-tests'
            assert line[end - 1] != " "
            assert line[end] == " "
    assert any(line.startswith("# Out of bounds values : 0 OK") for line in lines)
    assert any(line.startswith("# Avg bus bandwidth    : ") for line in lines)


def test_a_narrow_terminal_and_osu(tmp_path):
    several = "builtin,ring,recursive_doubling"
    words = ("bench", "-b", "64", "-e", "64", "--algorithms", several, *THREE)
    narrow = forked(*words, folder=tmp_path, environ={"COLUMNS": "80"})
    assert narrow.code == 0, narrow.err
    table = narrow.out[: narrow.out.index("# Out of bounds")].splitlines()
    assert "recursive_doubling" in narrow.out
    assert max(len(line) for line in table if line[0] == " ") <= 80
    osu = forked(
        "bench", "broadcast", "-r", "2", "-e", "64", "--style", "osu", *THREE, folder=tmp_path
    )
    assert "# Size" in osu.out
    rows = [line.split() for line in osu.out.splitlines() if line[0].isdigit()]
    assert [row[0] for row in rows] == ["4", "16", "64"]
    for _, average, least, most in rows:
        assert float(least) <= float(average) <= float(most)


def test_a_wrong_algorithm_is_found(tmp_path):
    (tmp_path / "mine.py").write_text(BROKEN)
    words = ("bench", "-b", "4K", "-e", "4K", "--algorithms", "builtin,mine.py", "--json", *THREE)
    ended = forked(*words, "--out", "here", folder=tmp_path)
    assert ended.code == 1
    assert "elements of the results are wrong" in ended.json["error"]
    rows = json.loads((tmp_path / "here" / "run.json").read_text())["rows"]
    assert [(row["algorithm"], row["out_of_place"]["wrong"]) for row in rows] == [
        ("builtin", 0),
        ("lazy", 2 * 1024),  # ranks 1 and 2 lack the sum
    ]


def test_links_between_all_pairs(tmp_path):
    ended = forked("bench", "sendrecv", "-e", "64K", "-f", "64", "--json", *THREE, folder=tmp_path)
    assert ended.code == 0, ended.err
    pairs = ended.json["pairs"]
    assert {(p["src"], p["dst"]) for p in pairs} == {
        (a, b) for a in range(3) for b in range(3) if a != b
    }
    for pair in pairs:
        assert min(pair[k] for k in ("latency_us", "bandwidth_GBps", "bidirectional_GBps")) > 0
    assert ended.json["rows"][0]["in_place"] is None
    page = (tmp_path / ended.json["run"] / "links.html").read_text()
    assert page.count("<tr><th") == 3 * 3
    assert "://" not in page
    assert "from 2" in ended.err


@ON_MPI
def test_under_mpirun(tmp_path):
    words = ("bench", "barrier", "--backend", "mpi", "--json")
    ended = run(*words, folder=tmp_path, launcher=(MPIEXEC, "-n", "2"))
    assert ended.code == 0, ended.err
    assert ended.json["launcher"] == "mpirun"
    assert ended.json["rows"][0]["size_bytes"] == 0
    assert ended.json["rows"][0]["out_of_place"]["wrong"] is None


@ON_MPI
@pytest.mark.parametrize("victim", [pytest.param(0, marks=pytest.mark.slow), 2])
def test_a_killed_rank_is_named(victim, tmp_path):
    words = ("bench", "-b", "64M", "-e", "64M", "-n", "10000", "--json", "--backend", "mpi")
    with started(*words, "--ranks", "3", folder=tmp_path) as running:
        pids = [_joined(running, rank) for rank in range(3)]
        segments = set().union(*map(_segments, pids))
        os.kill(pids[victim], signal.SIGKILL)
        ended = running.end()
    assert ended.code == 1
    assert ended.json["error"].startswith(f"rank {victim} died")
    assert segments
    assert not [path for path in segments if Path(path).exists()]


@ON_MPI
def test_it_stops_on_request_and_leaves_no_process(tmp_path):
    words = ("bench", "-b", "64M", "-e", "64M", "-n", "10000", "--backend", "mpi")
    with started(*words, "--ranks", "2", folder=tmp_path) as running:
        for rank in range(2):
            _joined(running, rank)
        running.process.send_signal(signal.SIGTERM)
        assert running.end().code == 128 + signal.SIGTERM


def test_buffers_in_the_arena_of_our_own_backend(tmp_path):
    words = ("bench", "--backend", "steptime", "-R", "1", "-b", "4", "-e", "1M", "-f", "512")
    ended = forked(*words, "--ranks", "2", "--json", folder=tmp_path)
    assert ended.code == 0, ended.err
    halves = [row[half] for row in ended.json["rows"] for half in ("out_of_place", "in_place")]
    assert {half["wrong"] for half in halves} == {0}
    assert ended.json["registered"] is True


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("nope", "no operation 'nope': choose one of all_reduce"),
        ("-b 2M -e 1M", "--minbytes 2MiB is more than --maxbytes 1MiB"),
        ("-f 1", "--stepfactor is 1: it must be a number above 1"),
        ("-d float31", "no datatype 'float31': did you mean float32"),
        ("-e 1000G", "of memory and"),
        ("broadcast -r 4 --ranks 4", "--root 4 is no rank: there are ranks 0 to 3"),
        ("all_gather --ranks 3 --algorithms recursive_doubling", "cannot serve 3 ranks: choose"),
        ("--algorithms rings", "'rings' does not exist: did you mean ring?"),
        ("--backend mpi -d half", "MPI has no float16: choose one of float32"),
        ("-R 1", "the backend gloo registers no buffers: leave -R out"),
        ("-R 2", "--local-register is 2: it must be 0 or 1"),
    ],
)
def test_what_is_refused_before_a_rank_starts(words, says, tmp_path):
    ended = here("bench", *words.split(), "--json", folder=tmp_path)
    assert ended.code == 2
    assert says in ended.json["error"]
    assert list(tmp_path.iterdir()) == []


def test_one_rank_has_no_links(tmp_path):
    ended = forked("bench", "sendrecv", "--ranks", "1", folder=tmp_path)
    assert ended.code == 2
    assert "at least 2 ranks" in ended.err


def test_train_refuses_mpi(tmp_path):
    ended = here("train", "--backend", "mpi", folder=tmp_path)
    assert ended.code == 2
    assert "PyTorch's wheels carry no MPI" in ended.err


def _pids(running, word):
    found = []
    for pid in running.pids():
        with suppress(OSError):
            environ = Path(f"/proc/{pid}/environ").read_bytes()
            if word.encode() in environ.split(b"\0"):
                found.append(pid)
    return found


def _joined(running, rank):
    """The process of a rank, once MPI has let go of the name of the memory that its ranks share.

    A rank that is killed earlier leaves that memory behind, as no program of ours can help.
    """
    pid = within(HANG_S, lambda: _pids(running, f"PMI_RANK={rank}"))[0]
    within(HANG_S, lambda: any(not Path(path).exists() for path in _segments(pid)))
    return pid


def _segments(pid):
    """The files of shared memory that a process has mapped, by the names that they had."""
    maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {line.split()[5] for line in maps if " /dev/shm/" in line}
