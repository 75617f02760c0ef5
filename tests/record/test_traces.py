"""Traces of other tools, made here on real ranks, against what the script is known to call."""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import profiled_script
import steptime as st
from forked import forked_python
from steptime.errors import UsageError
from steptime.program import Collective, Recv, Send
from steptime.record.operations import OPERATIONS
from steptime.record.traces.logs import trace_logs
from steptime.record.traces.opening import Trace, open_trace
from steptime.record.traces.program import trace_program
from steptime.record.traces.trace import Call
from steptime.timeline import Phase

STEPS = 3


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders profile, dump and pickled, with a file of each of two ranks."""
    folder = tmp_path_factory.mktemp("traces")
    for name in ("profile", "dump", "pickled"):
        (folder / name).mkdir()
    script = folder / "script.py"
    script.write_text(profiled_script.SCRIPT)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environ = {"TORCH_FR_BUFFER_SIZE": "2000", "OMP_NUM_THREADS": "1"}
    done = forked_python(*torchrun, str(script), str(folder), folder=folder, environ=environ)
    assert done.code == 0, done.err[-2000:]
    return folder


def named(call: Call) -> tuple[str, int]:
    return "message" if call.kind in ("send", "recv") else call.kind, call.nbytes


def events(file: Path) -> list[dict[str, Any]]:
    """The events with a duration, by Python's own JSON."""
    found = json.loads(file.read_text())["traceEvents"]
    return [event for event in found if event.get("ph") == "X"]


def gloo(file: Path) -> Iterator[dict[str, Any]]:
    return (event for event in events(file) if event["name"].startswith("gloo:"))


def test_a_profile_of_every_rank_tells_every_call_with_its_bytes(made: Path) -> None:
    trace = open_trace([made / "profile"])
    assert [one.rank for one in trace.ranks] == [0, 1]
    for one in trace.ranks:
        assert one.steps_by == "ProfilerStep#"
        counted = Counter(map(named, one.calls))
        assert {call: counted[call] for call in profiled_script.CALLS} == dict.fromkeys(
            profiled_script.CALLS, STEPS
        )
        assert {call.group.ranks for call in one.calls} == {(0, 1)}
        roots = {(call.kind, call.peer) for call in one.calls if call.peer >= 0}
        end = ("recv", 0) if one.rank else ("send", 1)
        assert roots == {("broadcast", 1), ("reduce", 0), ("gather", 0), ("scatter", 1), end} | (
            {("broadcast", 0)} if ("broadcast", 0) in roots else set()
        )


def test_calls_of_a_profile_last_as_long_as_gloo_says(made: Path) -> None:
    trace = open_trace([made / "profile"])
    for one in trace.ranks:
        file = made / "profile" / f"rank{one.rank}.json"
        own = sum(event["dur"] for event in gloo(file)) * 1e3
        assert sum(call.end - call.begin for call in one.calls) == pytest.approx(own, rel=1e-6)
        assert len(one.calls) == len(list(gloo(file)))


def test_ranks_of_a_profile_are_on_their_wall_clocks(made: Path) -> None:
    trace = open_trace([made / "profile"])
    for one in trace.ranks:
        raw = json.loads((made / "profile" / f"rank{one.rank}.json").read_text())
        first = min(event["ts"] for event in gloo(made / "profile" / f"rank{one.rank}.json"))
        wall = raw["baseTimeNanoseconds"] + first * 1e3
        assert min(call.begin for call in one.calls) == pytest.approx(wall, abs=1000)
    barriers = [[call for call in one.calls if call.kind == "barrier"] for one in trace.ranks]
    for here, there in zip(*barriers, strict=True):  # nobody leaves one before all have come
        assert here.end > there.begin
        assert there.end > here.begin


def test_a_profile_becomes_a_run_like_any_other(made: Path, tmp_path: Path) -> None:
    run = st.load(made / "profile")
    figures = run.figures
    parts = (figures.compute_s, figures.exposed_comm_s, figures.update_s, figures.other_s)
    assert sum(parts) == pytest.approx(run.step_s)
    assert min(figures.compute_s, figures.exposed_comm_s, figures.update_s) > 0
    steps = {}
    for rank in (0, 1):
        for event in events(made / "profile" / f"rank{rank}.json"):
            if event["name"].startswith("ProfilerStep#"):
                steps.setdefault(event["name"], []).append(event["dur"] / 1e6)
    slowest = sorted(max(durations) for durations in steps.values())
    assert run.step_s == pytest.approx(slowest[1], rel=1e-6)
    assert run.record.script is not None
    told = {(call.op, call.calls_per_step) for call in run.record.script.calls}
    assert {("all_gather", 2.0), ("reduce_scatter", 1.0), ("barrier", 1.0)} <= told
    again = st.load(run.save(tmp_path / "run"))
    assert again.step_s == run.step_s
    assert (tmp_path / "run" / "report.html").exists()


def test_updates_and_computing_are_told_apart(made: Path) -> None:
    run = st.load(made / "profile")
    assert run.timeline is not None
    rows = run.timeline.intervals
    optimizer = [
        event["dur"] / 1e6
        for rank in (0, 1)
        for event in events(made / "profile" / f"rank{rank}.json")
        if event["name"].startswith("Optimizer.step")
    ]
    updates = rows[rows["phase"] == Phase.UPDATE]
    assert (updates["end"] - updates["start"]).sum() == pytest.approx(sum(optimizer), rel=1e-5)


def test_a_profile_is_a_program_that_moves_the_same_bytes(made: Path) -> None:
    program = trace_program(open_trace([made / "profile"]))
    assert program.ranks == 2
    for ops in program.lists:
        calls = [op for op in ops if isinstance(op, Collective | Send | Recv)]
        moved = Counter((getattr(op, "kind", "message"), op.nbytes) for op in calls)
        assert {call: moved[call] for call in profiled_script.CALLS} == dict.fromkeys(
            profiled_script.CALLS, 1
        )


def test_one_rank_alone_says_who_is_missing(made: Path) -> None:
    trace = open_trace([made / "profile" / "rank1.json"])
    assert ([one.rank for one in trace.ranks], trace.world_size) == ([1], 2)
    assert "what 1 of 2 ranks did" in trace.untold
    with pytest.raises(UsageError, match="lacks the traces of 1 of 2 ranks"):
        trace_program(trace)


def test_ranks_without_distributed_info_are_told_by_the_names_of_their_files(
    made: Path, tmp_path: Path
) -> None:
    for rank in (0, 1):
        raw = json.loads((made / "profile" / f"rank{rank}.json").read_text())
        del raw["distributedInfo"]
        text = json.dumps(raw).encode()
        (tmp_path / f"job-rank-{1 - rank}.json.gz").write_bytes(gzip.compress(text))
    trace = open_trace([tmp_path])
    assert [one.rank for one in trace.ranks] == [0, 1]
    ends = {call.kind for call in trace.ranks[0].calls} & {"send", "recv"}
    assert ends == {"recv"}  # by its name rank 0 is what was rank 1
    (tmp_path / "job-rank-0.json.gz").rename(tmp_path / "first.json.gz")
    with pytest.raises(UsageError, match="does not tell of which rank it is"):
        open_trace([tmp_path])


def _dumped(trace: Trace, made: Path) -> None:
    for one in trace.ranks:
        raw = json.loads((made / "dump" / f"rank{one.rank}.json").read_text())
        assert len(one.calls) == len(raw["entries"])
        # gloo reduces all where it is asked to reduce and scatter, and its recorder says so.
        # It keeps no messages of gloo.
        known = {("all_reduce", n) if k == "reduce_scatter" else (k, n) for k, n in COLLECTIVES}
        counted = Counter(map(named, one.calls))
        assert {call: counted[call] for call in known} == dict.fromkeys(known, STEPS + 1)
        assert [call.begin for call in one.calls] == [e["time_created_ns"] for e in raw["entries"]]
        assert all(call.done for call in one.calls)


COLLECTIVES = {call for call in profiled_script.CALLS if call[0] != "message"}


def test_a_dump_of_the_flight_recorder_tells_order_bytes_and_state(made: Path) -> None:
    trace = open_trace([made / "dump"])
    _dumped(trace, made)
    assert any(word.startswith("when its calls ended") for word in trace.untold)
    assert {one.world_size for one in trace.ranks} == {2}


def test_a_pickled_dump_is_read_only_where_that_is_asked_for(made: Path) -> None:
    with pytest.raises(UsageError, match="is a pickle, which could run code"):
        open_trace([made / "pickled"])
    trace = open_trace([made / "pickled"], unpickle=True)
    _dumped(trace, made)
    lines = profiled_script.SCRIPT.splitlines()
    places = {
        (call.kind, lines[call.site.line - 1].strip().partition("(")[0])
        for call in trace.ranks[0].calls
        if call.site is not None
    }
    assert {("barrier", "dist.barrier"), ("broadcast", "dist.broadcast")} <= places


def test_a_dump_becomes_logs_that_check_can_judge(made: Path) -> None:
    trace = open_trace([made / "dump"])
    logs = trace_logs(trace)
    assert [log.rank for log in logs] == [0, 1]
    for log, one in zip(logs, trace.ranks, strict=True):
        assert [OPERATIONS[call["operation"]].kind for call in log.calls] == [
            call.kind for call in one.calls
        ]
        assert log.calls["bytes"].tolist() == [call.nbytes for call in one.calls]
        assert {group.ranks for group in log.groups.values()} == {(0, 1)}
        assert (log.calls["ended"] >= log.calls["issued"]).all()


def test_a_call_that_hangs_has_no_end_in_its_log(made: Path, tmp_path: Path) -> None:
    raw = json.loads((made / "dump" / "rank0.json").read_text())
    raw["entries"][-1] |= {"retired": False, "state": "started"}
    (tmp_path / "rank0.json").write_text(json.dumps(raw))
    (log,) = trace_logs(open_trace([tmp_path / "rank0.json"]))
    assert log.calls["ended"][-1] == 0
    assert (log.calls["ended"][:-1] > 0).all()
    assert not log.ended


def test_two_formats_in_one_folder_are_refused(made: Path, tmp_path: Path) -> None:
    for kind in ("profile", "dump"):
        (tmp_path / f"{kind}0.json").write_bytes((made / kind / "rank0.json").read_bytes())
    with pytest.raises(UsageError, match="holds a flight recorder dump and a torch"):
        open_trace([tmp_path])
