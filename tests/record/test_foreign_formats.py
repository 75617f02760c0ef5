"""Traces written here by hand, as the documents of their formats describe them.

No file of Nsight Systems was at hand: its export is made from the schema that NVIDIA documents.
"""

import gzip
import json
import os
import pickle
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import steptime as st
from steptime.errors import UsageError
from steptime.record.traces import document
from steptime.record.traces.formats import nsight
from steptime.record.traces.naming import item_bytes, kind_of, vector_elements
from steptime.record.traces.opening import open_trace
from steptime.record.traces.plain_pickle import unpickled
from steptime.record.traces.program import trace_program
from steptime.timeline import Phase

_DEEP = 10**6
"""Deeper than any Python's JSON reads; that of 3.13 reads 5,000."""

MS = 1_000_000


def slice_(cat: str, name: str, at: float, dur: float, tid: int = 7, **args: Any) -> dict[str, Any]:
    pid = 0 if cat in ("kernel", "gpu_memcpy") else 99
    event = {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": at, "dur": dur}
    return event | {"args": args}


def gpu_profile(rank: int, late: float = 0.0) -> dict[str, Any]:
    """Two steps of 10 ms: 4 ms of kernels, an all_reduce of 5 ms that 2 ms of them hide."""
    reduced = {
        "Collective name": "allreduce",
        "In msg nelems": 1000,
        "Out msg nelems": 1000,
        "dtype": "BFloat16",
        "Group size": 2,
        "Process Group Name": "0",
        "Process Group Ranks": "[0, 1]",
    }
    found = []
    for step in range(2):
        t = 10_000.0 * step
        found += [
            slice_("user_annotation", f"ProfilerStep#{step + 5}", t, 10_000.0, 1),
            slice_("user_annotation", "Optimizer.step#Adam.step", t + 8000, 500.0, 1),
            slice_("cuda_runtime", "cudaLaunchKernel", t + 8100, 5.0, 1, correlation=10 * step + 3),
            slice_("kernel", "gemm", t + 1000, 2000.0, correlation=10 * step + 1),
            slice_("kernel", "gemm", t + 4000, 2000.0, correlation=10 * step + 2),
            slice_("kernel", "ncclDevKernel_AllReduce", t + 3000 + late, 5000.0 - late, 20)
            | {"args": reduced},
            slice_("kernel", "adam", t + 8500, 1000.0, correlation=10 * step + 3),
            slice_("gpu_memcpy", "Memcpy HtoD", t + 9500, 250.0),
        ]
    groups = [{"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]}]
    return {
        "schemaVersion": 1,
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2, "pg_config": groups},
        "baseTimeNanoseconds": 1_700_000_000_000_000_000,
        "traceEvents": found,
    }


def write(file: Path, content: Any) -> Path:
    text = json.dumps(content).encode()
    file.write_bytes(gzip.compress(text) if file.suffix == ".gz" else text)
    return file


def test_kernels_tell_computing_update_and_what_is_exposed(tmp_path: Path) -> None:
    for rank, late in ((0, 0.0), (1, 1000.0)):
        write(tmp_path / f"{rank}.pt.trace.json.gz", gpu_profile(rank, late))
    run = st.load(tmp_path)
    figures = run.figures
    assert run.step_s == pytest.approx(0.010)
    assert figures.compute_s == pytest.approx(0.004)
    assert figures.update_s == pytest.approx(0.001)
    # Rank 0 waits from 3 to 4 ms for rank 1, which comes at 4; 6 to 8 nothing hides on either.
    assert figures.exposed_comm_s == pytest.approx((0.003 + 0.002) / 2)
    assert figures.transfer_s == pytest.approx(0.002)
    assert figures.bytes_sent_per_rank == [2000, 2000]
    assert run.record.script is not None
    (call,) = run.record.script.calls
    assert (call.op, call.group, call.calls_per_step, call.bytes_per_step) == (
        "all_reduce",
        "default_pg",
        1.0,
        2000.0,
    )
    assert call.exposed_s == pytest.approx(0.0025)


def test_a_kernel_that_says_nothing_is_what_its_launch_says(tmp_path: Path) -> None:
    content = gpu_profile(0)
    content["traceEvents"] = [
        slice_(
            "user_annotation",
            "nccl:_all_gather_base",
            100.0,
            50.0,
            1,
            **{"Input Dims": [[8, 4]], "Input type": ["c10::Half"]},
        ),
        slice_("cuda_runtime", "cudaLaunchKernel", 120.0, 5.0, 1, correlation=4),
        slice_("kernel", "ncclKernel_AllGather_RING_LL_Sum_int8_t", 200.0, 9.0, 20, correlation=4),
    ]
    (rank,) = open_trace([write(tmp_path / "rank0.json", content)]).ranks
    (call,) = rank.calls
    assert (call.kind, call.nbytes, call.end - call.begin) == ("all_gather", 2 * 32 * 2, 9000)


def test_a_step_on_a_gpu_is_a_program_that_one_rank_can_stand_for(tmp_path: Path) -> None:
    program = trace_program(open_trace([write(tmp_path / "rank0.json", gpu_profile(0))]))
    assert (program.ranks, len(program.lists)) == (2, 1)
    names = [(op.name, op.after) for op in program.lists[0]]
    # The all_reduce begins after the first gemm; what comes after 8 ms waits for it.
    assert names == [
        ("compute", ()),
        ("all_reduce", (0,)),
        ("compute", ()),
        ("compute", (1,)),
        ("update", ()),
        ("compute", ()),
    ]


def test_annotations_of_the_script_are_its_steps_where_the_profiler_marks_none(
    tmp_path: Path,
) -> None:
    content = gpu_profile(0)
    for event in content["traceEvents"]:
        event["name"] = event["name"].replace("ProfilerStep#", "train_step ")
    (rank,) = open_trace([write(tmp_path / "rank0.json", content)]).ranks
    assert (rank.steps_by, [step.number for step in rank.steps]) == (
        "the annotation train_step",
        [5, 6],
    )
    content["traceEvents"] = [
        event for event in content["traceEvents"] if "step " not in event["name"]
    ]
    (rank,) = open_trace([write(tmp_path / "rank0.json", content)]).ranks
    assert rank.steps_by == "the optimizer's step"
    assert [(step.end - step.begin) / MS for step in rank.steps] == [10.0]


def test_plain_chrome_events_are_ranks_by_process(tmp_path: Path) -> None:
    events = [
        {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "rank 1"}},
        {"ph": "M", "name": "process_name", "pid": 9, "args": {"name": "rank 0"}},
        {"ph": "M", "name": "thread_name", "pid": 7, "tid": 1, "args": {"name": "main"}},
        {"ph": "B", "name": "step 3", "pid": 7, "tid": 1, "ts": 0},
        {"ph": "X", "name": "forward", "pid": 7, "tid": 1, "ts": 10, "dur": 40},
        {"ph": "X", "name": "matmul", "pid": 7, "tid": 1, "ts": 12, "dur": 8},
        {"ph": "X", "name": "MPI_Allreduce", "pid": 7, "tid": 1, "ts": 60, "dur": 30},
        {"ph": "E", "pid": 7, "tid": 1, "ts": 100},
        {"ph": "X", "name": "step 3", "pid": 9, "tid": 1, "ts": 0, "dur": 100},
        {"ph": "X", "name": "forward", "pid": 9, "tid": 1, "ts": 0, "dur": 70},
    ]
    for name, content in (("object.json", {"traceEvents": events}), ("array.json", events)):
        trace = open_trace([write(tmp_path / name, content)])
        assert trace.format == "Chrome trace"
        zero, one = trace.ranks
        assert [call.kind for call in one.calls] == ["all_reduce"]
        assert [(span.stream, span.name) for span in one.spans] == [("main", "forward")]
        assert (zero.steps[0].number, len(zero.calls)) == (3, 0)
    figures = st.load(tmp_path / "object.json").figures
    assert figures.step_time_s.median == pytest.approx(100e-6)
    assert figures.compute_s == pytest.approx((40e-6 + 70e-6) / 2)
    assert figures.exposed_comm_s == pytest.approx(15e-6)


def export(file: Path, devices: int = 1) -> Path:
    """An export of two steps of 10 ms, each with kernels of 4 ms and one of NCCL of 3 ms."""
    with closing(sqlite3.connect(file)) as database:
        database.executescript(
            """
            CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (
                start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
                contextId INTEGER NOT NULL, streamId INTEGER NOT NULL, correlationId INTEGER,
                globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL);
            CREATE TABLE NVTX_EVENTS (
                start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER,
                category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, textId INTEGER);
            CREATE TABLE TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT);
            INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'ncclDevKernel_ReduceScatter'),
                (3, 'iteration 1');
            INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (1700000000000000000, '');
            """
        )
        kernel = "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, 1, ?, ?, 0, ?, ?)"
        for step in range(2):
            at = step * 10 * MS
            text = ("iteration 0", None) if step == 0 else (None, 3)
            database.execute(
                "INSERT INTO NVTX_EVENTS VALUES (?, ?, 59, 0, 0, 0, ?, 0, ?)",
                (at, at + 10 * MS, *text),
            )
            for device in range(devices):
                rows = [(MS, 5 * MS, 7, 1), (4 * MS, 7 * MS, 13, 2)]
                for begin, end, stream, name in rows:
                    database.execute(kernel, (at + begin, at + end, device, stream, 1, name, name))
        database.commit()
    return file


def test_an_export_of_nsight_tells_kernels_and_those_of_nccl(tmp_path: Path) -> None:
    file = export(tmp_path / "report.sqlite")
    before = file.read_bytes()
    trace = open_trace([file])
    (rank,) = trace.ranks
    assert rank.steps_by == "the range iteration of NVTX"
    assert [(call.kind, call.end - call.begin) for call in rank.calls] == [
        ("reduce_scatter", 3 * MS)
    ] * 2
    figures = st.load(file).figures
    assert figures.step_time_s.median == pytest.approx(0.010)
    assert figures.compute_s == pytest.approx(0.004)
    assert figures.exposed_comm_s == pytest.approx(0.002)
    assert file.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["report.sqlite"]


def test_devices_of_an_export_are_ranks(tmp_path: Path) -> None:
    trace = open_trace([export(tmp_path / "report.sqlite", devices=2)])
    assert [(one.rank, one.world_size, len(one.calls)) for one in trace.ranks] == [
        (0, 2, 2),
        (1, 2, 2),
    ]


def test_an_export_of_too_many_rows_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nsight, "MOST_ROWS", 3)
    with pytest.raises(UsageError, match="has 4 rows, and at most 3 are read"):
        open_trace([export(tmp_path / "report.sqlite")])


def test_a_damaged_database_is_refused(tmp_path: Path) -> None:
    whole = export(tmp_path / "report.sqlite").read_bytes()
    for cut in (50, 5000, len(whole) - 3000):
        (tmp_path / "cut.sqlite").write_bytes(whole[:cut])
        with pytest.raises(UsageError, match=r"cut\.sqlite was cut off"):
            open_trace([tmp_path / "cut.sqlite"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is no trace of a format"),
        (b"hello", "is no trace of a format"),
        (b'{"answer": 42}', "is no trace of a format"),
        (b'{"traceEvents": [', "is no whole JSON"),
        (b'{"traceEvents": [{"ph": "X", "ts": "noon"}]}', "cannot read the Chrome trace"),
        (b'{"traceEvents": 7}', "cannot read the Chrome trace"),
        (b'{"traceEvents": []}', "holds no events of any rank"),
        (b'{"schemaVersion": 1, "traceEvents": []}', "holds no events of any rank"),
        (b'{"entries": [{}], "pg_config": {}}', "cannot read the flight recorder dump"),
        (b'{"entries": [], "pg_config": {}}', "holds no events of any rank"),
        (b"[" * _DEEP + b"]" * _DEEP, "trace.json"),
        (b'{"traceEvents": ' + b'[{"args": ' * _DEEP + b"}]" * _DEEP + b"}", "trace.json"),
        (b'{"traceEvents": [' + b'{"ph": "X", "args": ' + b"[" * _DEEP + b"]" * _DEEP + b"}]}", ""),
        (b"\x1f\x8bnot packed at all", "trace.json"),
        (b"\x80\x04nothing", "is a pickle, which could run code"),
    ],
)
def test_what_is_no_whole_trace_is_refused_in_one_sentence(
    tmp_path: Path, content: bytes, said: str
) -> None:
    file = tmp_path / "trace.json"
    file.write_bytes(content)
    with pytest.raises(UsageError) as refused:
        st.load(file)
    assert said in str(refused.value)
    assert "trace" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_enormous_trace_is_refused_with_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "MOST_BYTES", 1000)
    file = write(tmp_path / "rank0.json", gpu_profile(0))
    with pytest.raises(UsageError, match="it has more than 1,000 bytes"):
        open_trace([file])
    packed = write(tmp_path / "rank0.json.gz", gpu_profile(0))
    with pytest.raises(UsageError, match="it has more than 1,000 bytes"):
        open_trace([packed])


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("ts", 1e300, "it has an event from"),
        ("ts", 1 << 70, "it has an event from"),
        ("dur", 1 << 62, "it has an event from"),
    ],
)
def test_times_that_no_job_has_are_refused(
    tmp_path: Path, field: str, value: float, said: str
) -> None:
    content = gpu_profile(0)
    content["traceEvents"][3][field] = value
    with pytest.raises(UsageError, match=said):
        st.load(write(tmp_path / "rank0.json", content))


def dump(**entry: Any) -> dict[str, Any]:
    """A dump of NCCL's with one call that lasted 2 ms."""
    created = 1_795_368_669_567_820_659
    call = {
        "process_group": ["0", "default_pg"],
        "profiling_name": "nccl:all_reduce",
        "collective_seq_id": 3,
        "time_created_ns": created,
        "time_discovered_started_ns": created + MS,
        "time_discovered_completed_ns": created + 3 * MS,
        "input_sizes": [[6]],
        "input_dtypes": ["Long"],
        "state": "completed",
    }
    groups = {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}}
    return {"version": "2.10", "pg_config": groups, "entries": [call | entry]}


def test_a_dump_of_nccl_tells_how_long_its_calls_took(tmp_path: Path) -> None:
    (rank,) = open_trace([write(tmp_path / "nccl_trace_rank_1.json", dump())]).ranks
    (call,) = rank.calls
    assert (rank.rank, rank.world_size, rank.backend) == (1, 2, "nccl")
    assert (call.kind, call.nbytes, call.end - call.begin, call.sequence) == (
        "all_reduce",
        48,
        2 * MS,
        3,
    )
    ends = dump(profiling_name="nccl:recv 1<-0", is_p2p=True, p2p_seq_id=8)
    (rank,) = open_trace([write(tmp_path / "nccl_trace_rank_1.json", ends)]).ranks
    assert [(call.kind, call.peer, call.sequence) for call in rank.calls] == [("recv", 0, 8)]


def test_a_dump_tells_the_line_of_the_script_and_that_of_the_package_which_calls(
    tmp_path: Path,
) -> None:
    packages = "/usr/lib/python3.12/site-packages"
    frames = [
        (f"{packages}/torch/distributed/distributed_c10d.py", 2806, "all_reduce"),
        (f"{packages}/deepspeed/comm/torch.py", 290, "all_reduce"),
        ("/usr/lib/python3.12/contextlib.py", 81, "inner"),
        (f"{packages}/deepspeed/runtime/engine.py", 2519, "step"),
        ("/job/train.py", 18, "main"),
    ]
    named = [{"filename": file, "line": line, "name": name} for file, line, name in frames]
    (rank,) = open_trace([write(tmp_path / "nccl_trace_rank_1.json", dump(frames=named))]).ranks
    assert [str(call.site) for call in rank.calls] == ["train.py:18 via engine.py:2519"]


def test_a_group_that_a_dump_does_not_describe_moves_no_bytes(tmp_path: Path) -> None:
    run = st.load(write(tmp_path / "rank0.json", dump() | {"pg_config": {}}))
    assert run.figures.bytes_sent_per_rank == [0]


def test_two_files_of_one_rank_are_refused(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        write(tmp_path / name, gpu_profile(1))
    with pytest.raises(UsageError, match="holds two traces of rank 1"):
        open_trace([tmp_path])


def test_ranks_without_a_step_in_common_are_refused(tmp_path: Path) -> None:
    for rank in (0, 1):
        content = gpu_profile(rank)
        for event in content["traceEvents"]:
            event["name"] = event["name"].replace("ProfilerStep#", f"ProfilerStep#{rank}")
        write(tmp_path / f"{rank}.json", content)
    with pytest.raises(UsageError, match="no step in common"):
        st.load(tmp_path)


class _Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("made-by-a-pickle",)


def test_a_pickle_that_would_do_something_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "dump.pickle"
    file.write_bytes(pickle.dumps({"entries": [_Harmful()]}))
    with pytest.raises(UsageError, match=r"asks for posix\.mkdir, and only plain values"):
        open_trace([file], unpickle=True)
    assert not (tmp_path / "made-by-a-pickle").exists()
    assert unpickled(pickle.dumps({"a": (1, [2.5, None])})) == {"a": (1, [2.5, None])}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("_allgather_base", "all_gather"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevComm*)", "reduce_scatter"),
        ("reduce_scatter_tensor_coalesced", "reduce_scatter"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", "all_to_all"),
        ("all_to_allv", "all_to_all"),
        ("nccl:all_reduce_barrier", "barrier"),
        ("MPI_Isend", "send"),
        ("gemm", ""),
    ],
)
def test_calls_are_known_by_their_many_names(name: str, kind: str) -> None:
    assert kind_of(name) == kind


def test_vectors_and_dtypes() -> None:
    names = ("Float", "long int", "c10::BFloat16", "torch.float64", "unsigned char", "who knows")
    assert [item_bytes(name) for name in names] == [4, 8, 2, 8, 1, 0]
    assert vector_elements("all_gather", 10, 0, 4) == 40
    assert vector_elements("all_gather", 10, 40, 4) == 40
    assert vector_elements("reduce_scatter", 0, 5, 4) == 20
    assert vector_elements("scatter", 0, 3, 2) == 6
    assert vector_elements("barrier", 1, 1, 2) == 0


def test_steps_of_a_run_of_ours_are_not_read_as_a_foreign_trace(tmp_path: Path) -> None:
    write(tmp_path / "rank0.json", gpu_profile(0))
    run = st.load(tmp_path)
    assert run.timeline is not None
    assert (run.timeline.intervals["phase"] == Phase.STEP).sum() == 2
    saved = run.save(tmp_path / "run")
    with pytest.raises(UsageError, match="is part of a run of steptime: name its folder"):
        st.load(saved / "trace.json.gz")
