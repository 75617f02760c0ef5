"""export from end to end: a run in every format, and what is refused in one sentence."""

import csv
import gzip
import json
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from command import MPIEXEC, STEPTIME, here

from goal_replay import parse, replay
from paraver_grammar import read_paraver
from steptime.program.chakra import read_chakra
from steptime.program.chakra.node import read_node
from steptime.program.chakra.protobuf import read_sized
from steptime.program.stored import PROGRAMS, read_programs
from steptime.runs import run_folder
from steptime.timeline import INTERVAL, MESSAGE, Phase, Timeline, read_chrome_trace
from steptime.timeline.chrome import write_chrome_trace

SMALL = ["gpt2-124M", "--ranks", "4", "--layers", "2", "--pipeline", "2"]
ALONE = ["unshare", "--time", "--monotonic"]
"""A process with a clock of its own, so many seconds ahead."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two ranks of two hosts with a message, and the program of a proxy."""
    folder = tmp_path_factory.mktemp("run")
    planned = here("proxy", *SMALL, "--dry-run", "--out", "run", folder=folder)
    assert planned.code == 0, planned.err
    run = folder / "run"
    rows = [
        (rank, stream, name, phase, 0, start, end, size, 0)
        for rank in range(4)
        for stream, name, phase, start, end, size in (
            (0, 0, Phase.STEP, 5.0, 6.0, 0),
            (1, 1, Phase.COMPUTE, 5.0, 5.75, 0),
            (2, 2, Phase.COMMUNICATION, 5.25, 6.0, 1 << 33),
        )
    ]
    timeline = Timeline(
        source="measured",
        ranks=4,
        names=("two", 'forward "1", a', "send activation 0"),
        streams=("step", "compute", "comm"),
        intervals=np.array(rows, INTERVAL),
        messages=np.array([(0, 3, 5.25, 6.0, 1 << 33)], MESSAGE),
    )
    write_chrome_trace(run / "trace.json.gz", timeline)
    return run


def exported(run: Path, *words: str) -> dict[str, object]:
    ended = here("export", str(run), *words, "--json", folder=run.parent)
    assert (ended.code, ended.err) == (0, "")
    return ended.json


def test_perfetto_is_the_trace_again(run: Path) -> None:
    answer = exported(run, "--to", "perfetto")
    path = run / "export" / "perfetto.json.gz"
    assert answer["files"] == [{"path": str(path), "bytes": path.stat().st_size}]
    again, before = read_chrome_trace(path), read_chrome_trace(run / "trace.json.gz")
    assert again.intervals.tolist() == before.intervals.tolist()
    assert again.messages.tolist() == before.messages.tolist() == [(0, 3, 5.25, 6.0, 1 << 33)]
    plain = run / "export" / "plain.json"
    exported(run, "--to", "perfetto", "--out", str(plain))
    document = json.loads(plain.read_text())
    assert document["distributedInfo"] == {"rank": 0, "world_size": 4}
    assert document["otherData"]["clock"] == []


def test_a_trace_a_rank_says_whose_it_is(run: Path) -> None:
    answer = exported(run, "--to", "perfetto", "--per-rank", "--out", "each")
    assert len(answer["files"]) == 4
    for rank in range(4):
        path = run.parent / "each" / f"rank{rank}.json.gz"
        document = json.loads(gzip.decompress(path.read_bytes()))
        assert document["distributedInfo"]["rank"] == rank
        assert {event["pid"] for event in document["traceEvents"]} == {rank}
        streams = [e["args"]["stream"] for e in document["traceEvents"] if e["ph"] == "X"]
        assert all(isinstance(stream, int) for stream in streams)  # a word stops HTA


def test_paraver_passes_its_grammar_and_knows_what_a_send_is(run: Path) -> None:
    exported(run, "--to", "paraver", "--out", "prv/mine.prv")
    trace = read_paraver(run.parent / "prv" / "mine")
    assert (len(trace.threads), trace.end) == (4, 10**9)
    assert len(trace.messages) == 1
    assert {state[7] for state in trace.states} == {1, 10}


def test_chakra_and_goal_hold_the_program_of_the_run(run: Path) -> None:
    answer = exported(run, "--to", "chakra", "--out", "et")
    (stored,) = read_programs(run)
    folder = Path(answer["files"][0]["path"]).parent
    again = read_chakra(run.parent / folder)
    assert again.lists == stored.program.lists
    assert again.class_of.tolist() == stored.program.class_of.tolist()
    goal = exported(run, "--to", "goal", "--out", "step.goal", "--algorithm", "all_reduce=binomial")
    ranks = parse((run.parent / "step.goal").read_text())
    replay(ranks)
    assert len(ranks) == 4
    (program,) = goal["programs"]
    assert program["algorithms"]["all_reduce"] == "binomial"
    assert program["messages"] == sum("to" in o.words for block in ranks for o in block)
    atlahs = exported(run, "--to", "atlahs", "--algorithm", "all_reduce=binomial")
    (file,) = atlahs["files"]
    cpus = {o.words.get("cpu", "0") for o in parse((run.parent / file["path"]).read_text())[0]}
    assert len(cpus) == len({op.stream for op in stored.program.lists[0]}) > 1
    assert not any("cpu" in o.words for block in ranks for o in block)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables_have_a_row_an_interval_in_words(run: Path, kind: str) -> None:
    exported(run, "--to", kind, "--out", kind)
    folder = run.parent / kind
    if kind == "csv":
        tables = [
            list(csv.DictReader((folder / f"{name}.csv").read_text().splitlines()))
            for name in ("intervals", "messages")
        ]
    else:
        from pyarrow import parquet

        tables = [
            parquet.read_table(folder / f"{name}.parquet").to_pylist()
            for name in ("intervals", "messages")
        ]
    intervals, (message,) = tables
    assert len(intervals) == 12
    row = {name: str(value) for name, value in intervals[1].items()}
    assert row == {
        "rank": "0",
        "stream": "compute",
        "name": 'forward "1", a',
        "phase": "compute",
        "step": "0",
        "start_s": "5.0",
        "end_s": "5.75",
        "bytes": "0",
    }
    assert {name: float(value) for name, value in message.items()} == {
        "src": 0,
        "dst": 3,
        "sent_s": 5.25,
        "received_s": 6.0,
        "bytes": 1 << 33,
    }


def test_a_person_is_told_files_sizes_clocks_and_what_opens_them(run: Path) -> None:
    ended = here("export", "run", "--to", "paraver", folder=run.parent)
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[0] == "paraver: 12 intervals and 1 messages of 4 ranks, measured"
    assert lines[1].startswith("  run/export/trace.prv  ")
    assert "Paraver" in lines[-1]
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nowhere", "--to", "csv"], "is no folder"),
        (["run", "--to", "csv", "--per-rank"], "--per-rank is about perfetto"),
        (["run", "--to", "csv", "--strategy", "x"], "--strategy is about a program"),
        (["run", "--to", "chakra", "--algorithm", "all_reduce=ring"], "is about goal"),
        (["run", "--to", "goal", "--strategy", "x"], "has no program 'x': choose one of"),
        (["run", "--to", "goal", "--algorithm", "scatter=flat"], "no step calls it"),
        (["run", "--to", "goal", "--algorithm", "all_reduce=x"], "there is no all_reduce 'x'"),
        (["run", "--to", "csv", "--out", "run/run.json"], "is a file, and csv needs a folder"),
        (["run", "--to", "perfetto", "--per-rank", "--out", "a.json"], "several files"),
        (["run", "--to", "vampir"], "vampir"),
    ],
)
def test_what_cannot_be_exported_is_refused(run: Path, words: list[str], complaint: str) -> None:
    ended = here("export", *words, folder=run.parent)
    assert ended.code == 2
    assert complaint in ended.err
    assert ended.err.count("\n") == 1


def test_a_run_that_lacks_a_file_exports_what_it_can(run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "run")
    (tmp_path / "run" / PROGRAMS).unlink()
    assert here("export", "run", "--to", "paraver", folder=tmp_path).code == 0
    refused = here("export", "run", "--to", "goal", folder=tmp_path)
    assert (refused.code, PROGRAMS in refused.err) == (2, True)
    trace = tmp_path / "run" / "trace.json.gz"
    trace.write_bytes(trace.read_bytes()[:-9])
    assert "cannot read the trace" in here("export", "run", "--to", "csv", folder=tmp_path).err
    trace.unlink()
    assert "has no trace.json.gz" in here("export", "run", "--to", "csv", folder=tmp_path).err
    record = run_folder.read_record(tmp_path / "run")
    run_folder.write_record(tmp_path / "run", {**record, "environment": {"format": 99}})
    assert "format 99" in here("export", "run", "--to", "csv", folder=tmp_path).err


def test_parquet_without_its_package_is_one_sentence(run: Path) -> None:
    with patch.dict(sys.modules, {"pyarrow": None, "pyarrow.parquet": None}):
        ended = here("export", "run", "--to", "parquet", folder=run.parent)
    assert ended.code == 2
    assert "pip install 'steptime[parquet]'" in ended.err


def test_a_simulated_run_exports_its_links_messages_and_program(tmp_path: Path) -> None:
    words = ["--cluster", "dgx-h100", "--ranks", "4", "--batch", "4"]
    words += ["--strategy", "replicated,server"]
    ended = here("simulate", "gpt2-124M", *words, "--out", "run", folder=tmp_path)
    assert ended.code == 0, ended.err
    run = tmp_path / "run"
    exported(run, "--to", "perfetto", "--out", "p.json")
    events = json.loads((tmp_path / "p.json").read_text())["traceEvents"]
    curves = [e for e in events if e["ph"] == "C"]
    assert 0 < max(e["args"]["v"] for e in curves) <= 1.0 + 1e-6
    labels = {e["args"]["labels"] for e in events if e["name"] == "process_labels"}
    assert labels == {"host0"}
    exported(run, "--to", "goal", "--out", "step.goal", "--strategy", "replicated")
    ranks = parse((tmp_path / "step.goal").read_text())
    replay(ranks)
    computing = sum(int(o.words.get("calc", 0)) for o in ranks[0]) / 1e9
    figures = run_folder.read_record(run)["strategies"]["replicated"]
    assert computing == pytest.approx(figures["compute_s"] + figures["update_s"], rel=1e-3)
    chakra = exported(run, "--to", "chakra")
    assert chakra["not_in_astra_sim"] == ["broadcast", "reduce"]
    (path,) = (file["path"] for file in chakra["files"] if "replicated/step.0.et" in file["path"])
    content = (tmp_path / path).read_bytes()
    at, micros = read_sized(content, 0)[1], 0
    while at < len(content):
        record, at = read_sized(content, at)
        micros += read_node(record).micros
    assert micros / 1e6 == pytest.approx(computing, rel=0.01)  # whole microseconds


def own_clocks() -> bool:
    with suppress(OSError):
        tried = [*ALONE, "5000", "true"]
        return subprocess.run(tried, capture_output=True, timeout=600).returncode == 0
    return False


@pytest.mark.slow
@pytest.mark.skipif(
    not (MPIEXEC and own_clocks()), reason="this kernel or user cannot shift a clock"
)
def test_ranks_whose_clocks_differ_leave_one_merged_trace(tmp_path: Path) -> None:
    """Rank 1, the second stage, lives 5,000 s ahead: no message travels back in time."""
    words = ["gpt2-124M", "--layers", "2", "--pipeline", "2", "--scale-bytes", "1/256"]
    words += ["--compute", "nothing", "--steps", "3", "--out", "run", "--backend", "mpi"]
    rank = ["-n", "1", *ALONE]
    command = [MPIEXEC, *rank, "0", STEPTIME, "proxy", *words]
    command += [":", *rank, "5000", STEPTIME, "proxy", *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    answer = exported(tmp_path / "run", "--to", "csv")
    ahead = [clock["offset_s"] for clock in answer["clock"]]
    error = 2 * max(clock["error_s"] for clock in answer["clock"])
    assert 0 < error < 100
    assert ahead == pytest.approx([0.0, 5000.0], abs=error)
    timeline = read_chrome_trace(tmp_path / "run" / "trace.json.gz")
    assert timeline.messages.size > 0
    assert (timeline.messages["received"] >= timeline.messages["sent"] - error).all()
    assert answer["early_messages"] == 0
    steps = timeline.intervals[timeline.intervals["phase"] == Phase.STEP]
    assert np.ptp(steps["start"][steps["step"] == steps["step"].max()]) < 1000
