"""Scripts as they are, recorded on real ranks, against what they are known to call."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import recorded_scripts as scripts
import steptime as st
from cli.command import run
from forked import forked
from recorded import HANGS_AFTER_S, calls_of, program_calls, record
from steptime.program import Compute, Wait
from steptime.program.stored import read_programs
from steptime.record.events import Kind
from steptime.record.operations import OPERATIONS
from steptime.record.read import ProcessLog, read_logs


def _reductions(log: ProcessLog) -> set[tuple[str, str]]:
    return {
        (OPERATIONS[call["operation"]].kind, log.signatures[int(call["signature"])].reduction)
        for call in log.calls
        if call["signature"]
    }


@pytest.fixture(scope="module", params=["gloo", pytest.param("steptime", marks=pytest.mark.slow)])
def patterns(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Path]:
    """A backend, and the recording of a script that makes every kind of call by it."""
    folder = tmp_path_factory.mktemp("patterns")
    environ = {**scripts.installed(folder / "site"), "BACKEND": request.param}
    done = record(folder, scripts.PATTERNS, environ=environ)
    assert done.code == 0, done.err
    return request.param, folder / "run"


def known_calls(rank: int) -> list[tuple[str, int]]:
    """What PATTERNS calls on a rank, in order."""
    message = "recv" if rank else "send"
    return [(message if kind == "message" else kind, n) for kind, n in scripts.PATTERN_CALLS]


def test_every_kind_of_call_is_seen_with_its_bytes_in_order(patterns: tuple[str, Path]) -> None:
    backend, run = patterns
    for log in read_logs(run):
        assert calls_of(log) == known_calls(log.rank)
        assert (log.calls["ended"] >= log.calls["issued"]).all()
        assert {group.backend for group in log.groups.values()} == {backend}
        assert {reduction for kind, reduction in _reductions(log) if kind == "all_reduce"} == {
            "sum",
            "max",
        }
        assert ("reduce_scatter", "avg") in _reductions(log)
        assert ("all_gather", "") in _reductions(log)


def test_the_program_of_a_script_has_its_calls_in_order(patterns: tuple[str, Path]) -> None:
    """Every kind of call, groups of two kinds, messages one by one and in batches."""
    _, run = patterns
    (stored,) = read_programs(run)
    for rank, ops in enumerate(stored.program.lists):
        assert program_calls(ops) == known_calls(rank)
        assert isinstance(ops[-1], Compute | Wait)
    assert st.load(run).record.script.program == "the whole run, which has no steps"


@pytest.mark.slow
def test_a_group_that_is_a_python_class_is_recorded_as_any_other(tmp_path: Path) -> None:
    found = {}
    for backend in ("gloo", "steptime"):
        folder = tmp_path / backend
        folder.mkdir()
        environ = {**scripts.installed(folder / "site"), "BACKEND": backend}
        assert record(folder, scripts.MIXED, environ=environ).code == 0
        logs = read_logs(folder / "run")
        found[backend] = [
            [
                (int(call["operation"]), int(call["bytes"]), int(call["flags"]), int(call["peer"]))
                for call in log.calls
            ]
            for log in logs
        ]
        lines = [[log.sites[int(call["site"])].line for call in log.calls] for log in logs]
        assert lines[0] == lines[1]
        assert all((log.calls["ended"] > 0).all() for log in logs)
    assert found["steptime"] == found["gloo"]


def test_a_group_that_torch_does_not_know_is_recorded(tmp_path: Path) -> None:
    environ = {"STORE": str(tmp_path / "store")}
    done = record(tmp_path, scripts.OF_A_LIBRARY, environ=environ)
    assert done.code == 0, done.err
    for rank, log in enumerate(read_logs(tmp_path / "run")):
        assert log.rank == rank
        assert calls_of(log) == [("all_reduce", 40)] * 3
        assert [group.ranks for group in log.groups.values()] == [(0, 1)]


SPARSE = (
    scripts.START
    + """
for values in (1, 1, 3):
    places = torch.arange(values).reshape(1, values)
    part = torch.sparse_coo_tensor(places, torch.ones(values, 5), (50, 5))
    dist.all_reduce(part)
    assert part.coalesce().values().eq(2).all()
dist.all_reduce(torch.ones(50, 5))
dist.destroy_process_group()
"""
)


@pytest.mark.parametrize("kernel", ["", "c", "python"])
def test_a_sparse_tensor_has_the_bytes_of_its_values_and_their_places(
    kernel: str, tmp_path: Path
) -> None:
    done = record(tmp_path, SPARSE, environ={"STEPTIME_KERNEL": kernel})
    assert done.code == 0, done.err
    for log in read_logs(tmp_path / "run"):
        reduced = [call for call in log.calls if OPERATIONS[call["operation"]].kind == "all_reduce"]
        assert [int(call["bytes"]) for call in reduced] == [28, 28, 84, 1000]


@pytest.mark.slow
def test_a_call_is_placed_where_the_script_makes_it(tmp_path: Path) -> None:
    record(tmp_path, scripts.DDP, "0")
    log = read_logs(tmp_path / "run")[1]
    lines = scripts.DDP.splitlines()
    at = {
        (OPERATIONS[call["operation"]].kind, lines[log.sites[int(call["site"])].line - 1].strip())
        for call in log.calls
    }
    assert {site.file for site in log.sites.values()} == {str(tmp_path / "script.py")}
    assert {line for kind, line in at if kind == "all_reduce"} == {"loss.backward()"}
    assert any("DistributedDataParallel(" in line for kind, line in at if kind == "broadcast")


@pytest.mark.slow
def test_a_script_keeps_its_output_its_arguments_its_result_and_its_code(tmp_path: Path) -> None:
    file = tmp_path / "plain.py"
    file.write_text(scripts.DDP)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    plain = subprocess.run(
        [sys.executable, *torchrun, str(file), "3", "--json"],
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_S,
    )
    done = record(tmp_path, scripts.DDP, "3", "--json", start=run)
    assert done.code == plain.returncode == 1  # torchrun's own when a rank exits with 3
    assert "['3', '--json']" in plain.stdout
    # What two ranks print at once may be mixed, with steptime and without.
    assert sorted(done.out[: len(plain.stdout)]) == sorted(plain.stdout)


@pytest.mark.parametrize("verb", ["record", "check"])
def test_json_stands_alone_on_stdout(tmp_path: Path, verb: str) -> None:
    file = tmp_path / "prints.py"
    file.write_text("import torch, torch.distributed as dist\nprint('heard')\n" + scripts.ALONE)
    done = forked(verb, "--ranks", "1", "--json", "--out", "run", str(file), folder=tmp_path)
    assert json.loads(done.out)["verb"] == verb
    assert "heard" in done.err


@pytest.mark.parametrize("backend", ["gloo", pytest.param("steptime", marks=pytest.mark.slow)])
def test_who_sent_what_any_rank_could_send_is_known(tmp_path: Path, backend: str) -> None:
    environ = {**scripts.installed(tmp_path / "site"), "BACKEND": backend}
    done = record(tmp_path, scripts.FROM_ANY, words=["--ranks", "4"], environ=environ)
    assert done.code == 0, done.err
    log = read_logs(tmp_path / "run")[0]
    kinds = [OPERATIONS[call["operation"]].kind for call in log.calls]
    received = [
        int(call["peer"]) for call, kind in zip(log.calls, kinds, strict=True) if kind == "recv"
    ]
    assert received == [int(line) for line in done.out.splitlines()[:12]]
    (stored,) = read_programs(tmp_path / "run")
    kinds = [kind for kind, _ in program_calls(stored.program.lists[0])]
    assert kinds.count("recv") == kinds.count("send") == len(received)


def test_what_a_closure_does_in_a_step_is_no_part_of_the_update(tmp_path: Path) -> None:
    done = record(tmp_path, scripts.CLOSURES, words=[])
    assert done.code == 0, done.err
    (log,) = read_logs(tmp_path / "run")
    spans = {
        kind: [
            (int(event["issued"]), int(event["ended"]))
            for event in log.events[log.events["kind"] == kind]
        ]
        for kind in (Kind.BACKWARD, Kind.OPTIMIZER)
    }
    assert len(spans[Kind.BACKWARD]) > 10  # several in a step of the one, one in each of the other
    assert len(spans[Kind.OPTIMIZER]) == len(spans[Kind.BACKWARD])
    for begin, end in spans[Kind.OPTIMIZER]:
        assert not any(begin < after and before < end for before, after in spans[Kind.BACKWARD])
    assert json.loads((tmp_path / "run" / "run.json").read_text())["steps"] == 4


def test_a_step_of_ddp_is_told_by_its_parts_and_its_calls(tmp_path: Path) -> None:
    done = record(tmp_path, scripts.DDP, "0")
    assert done.code == 0, done.err
    kept = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (kept["verb"], kept["ranks"], kept["steps"]) == ("record", 2, 9)
    parts = ("compute_s", "exposed_comm_s", "update_s", "other_s")
    assert sum(kept[part] for part in parts) <= kept["step_time_s"]["median"] * (1 + 1e-9)
    assert all(kept[part] > 0 for part in parts)
    calls = {(call["op"], call["calls_per_step"], call["bytes_per_step"]) for call in kept["calls"]}
    assert ("all_reduce", 1.0, 40_000.0) in calls
    names = set(st.load(tmp_path / "run").timeline.names)
    assert {"forward", "backward", "optimizer", "data loading", "all_reduce"} <= names
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.slow
def test_under_a_launcher_it_is_told_when_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(scripts.DDP)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    words = ["-m", "steptime", "record", "--out", "run", "script.py", "0"]
    done = subprocess.run(
        [sys.executable, *torchrun, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=HANGS_AFTER_S,
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "run" / "run.json").exists()
    kept = st.load(tmp_path / "run").record
    assert (kept.verb, kept.place.world_size, kept.timing.steps) == ("record", 2, 9)
    assert (tmp_path / "run" / "run.json").exists()


@pytest.mark.slow
def test_calls_in_quick_succession_do_not_deadlock_and_what_they_let_go_is_not_kept(
    tmp_path: Path,
) -> None:
    done = record(tmp_path, scripts.STORM, start=run)
    assert done.code == 0, done.err
    assert len(read_logs(tmp_path / "run")[0].calls) == 4000 + 2
    assert done.out.count("free") == 2, done.out + done.err  # perhaps on one line


def test_what_a_killed_rank_did_is_there(tmp_path: Path) -> None:
    (tmp_path / "told").mkdir()
    assert record(tmp_path, scripts.KILLED, str(tmp_path / "told")).code != 0
    for log in read_logs(tmp_path / "run"):
        assert not log.ended
        assert calls_of(log)[:100] == [("all_reduce", 40)] * 100


def test_what_ends_a_rank_is_told(tmp_path: Path) -> None:
    done = record(tmp_path, scripts.RAISING)
    assert done.code != 0
    assert "RuntimeError: shape '[3]'" in done.err
    fine, raising = read_logs(tmp_path / "run")
    assert fine.raised is None
    assert raising.raised is not None
    line = scripts.RAISING.splitlines().index("    torch.zeros(2).view(3)") + 1
    assert str(raising.raised) == f"RuntimeError at script.py:{line}"
    assert {group.name for group in fine.groups.values()} == {"tp"}


def test_children_write_into_files_of_their_own(tmp_path: Path) -> None:
    assert record(tmp_path, scripts.FORKING).code == 0
    for log in read_logs(tmp_path / "run"):
        assert log.ended
        assert calls_of(log) == [("all_reduce", 40)] * 7


def test_a_script_with_nothing_distributed_says_so(tmp_path: Path) -> None:
    asks = 'import importlib.util\nassert importlib.util.find_spec("torch")\n'
    # A script may ask before it imports.
    done = record(tmp_path, asks + scripts.ALONE, words=[], start=run)
    assert done.code == 0, done.err
    assert "No group of torch.distributed communicates anything" in done.out
    assert st.load(tmp_path / "run").record.script.calls == []
    assert len(read_logs(tmp_path / "run")[0].events) > 0


def test_a_script_that_is_not_there_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "steptime", "record", str(tmp_path / "none.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_AFTER_S)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "there is no script" in done.stderr


def test_a_script_that_fails_at_once_keeps_its_code_and_its_words(tmp_path: Path) -> None:
    done = record(tmp_path, "raise SystemExit(7)", words=[], start=run)
    assert (done.code, done.out, done.err) == (7, "", "")
    assert not (tmp_path / "run").exists()


def test_ctrl_c_goes_to_the_script(tmp_path: Path) -> None:
    file = tmp_path / "script.py"
    file.write_text(
        "import time\n"
        "try:\n    print('ready', flush=True)\n    time.sleep(1000)\n"
        "except KeyboardInterrupt:\n    raise SystemExit(5)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "steptime", "record", "--out", str(tmp_path / "run"), str(file)],
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(HANGS_AFTER_S) == 5
