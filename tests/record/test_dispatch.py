"""Calls recorded within the dispatcher, in C++: what is new goes through Python, the rest not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import recorded_scripts as scripts
from recorded import record
from steptime.record.dispatch import in_dispatcher
from steptime.record.dispatch.__main__ import build
from steptime.record.operations import OPERATIONS
from steptime.record.read import read_logs

pytestmark = pytest.mark.skipif(in_dispatcher() is None, reason="the C++ was not built")

AGAIN = (
    scripts.START
    + """
backend = os.environ.get("BACKEND", "gloo")
one = torch.ones(2)
for _ in range(3):
    dist.all_reduce(one, dist.ReduceOp.MAX)
    dist.all_reduce(one)
    dist.all_reduce(torch.ones(3))
    dist.broadcast(one, 1)
    dist.broadcast(one, 0)
    dist.monitored_barrier()
for _ in range(3):  # each may lie where the last one lay
    pair = dist.new_group([0, 1])
    dist.all_reduce(one, group=pair)
    dist.all_reduce(one, group=pair)
    dist.destroy_process_group(pair)
    del pair
dist.destroy_process_group()
os.environ["MASTER_PORT"] = str(int(os.environ["MASTER_PORT"]) + 1)
dist.init_process_group(backend, init_method=f"file://{os.getcwd()}/again", rank=rank, world_size=2)
for _ in range(2):
    dist.all_reduce(one)
dist.destroy_process_group()
"""
)


def test_calls_of_groups_that_came_and_went_are_told_apart(tmp_path: Path) -> None:
    done = record(tmp_path, AGAIN)
    assert done.code == 0, done.err
    for log in read_logs(tmp_path / "run"):
        told = []
        for call in log.calls:
            signature = log.signatures.get(int(call["signature"]))
            shapes = signature and (signature.reduction, signature.shapes)
            told.append((OPERATIONS[call["operation"]].kind, int(call["peer"]), shapes))
        reduced = [shapes for kind, _, shapes in told if kind == "all_reduce"]
        large, small = ((3,),), ((2,),)
        assert reduced[:9] == 3 * [("max", small), ("sum", small), ("sum", large)]
        assert [peer for kind, peer, _ in told if kind == "broadcast"] == 3 * [1, 0]
        assert sum(kind == "barrier" for kind, *_ in told) == 3
        groups = [int(call["group"]) for call in log.calls][-8:]
        assert groups[0] == groups[1] != groups[2] == groups[3] != groups[4] == groups[5]
        assert groups[6] == groups[7]
        assert len(set(groups)) == 4


MARKED = """
import sys
from pathlib import Path
import torch.distributed as dist
import torch
from test_marks_in_c import Gpu, Marked
from steptime.record.c10d import install
from steptime.record.calls import Calls
from steptime.record.events import Log
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
folder = Path(sys.argv[1])
log = Log(folder)
calls = Calls(log)
end = install(calls)
gpu = Gpu()
marked = Marked(gpu, folder / "marks")
calls.marks = marked.marks
one = torch.ones(4)
for _ in range(3):
    gpu.now_ms += 1
    dist.all_reduce(one)
    gpu.now_ms += 1
    work = dist.all_reduce(one, async_op=True)
    gpu.now_ms += 1
    work.wait()
calls.marks = None
gpu.now_ms += 1e6
marked.marks.drain()
print([(int(one["event"]), int(one["time"])) for one in marked.read()])
end()
calls.close()
dist.destroy_process_group()
"""


def test_marks_of_a_gpu_are_those_of_calls_in_c(tmp_path: Path) -> None:
    found = []
    for kernel in ("cpp", "c"):
        folder = tmp_path / kernel
        folder.mkdir()
        paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
        done = subprocess.run(
            [sys.executable, "-c", MARKED, str(folder)],
            env={
                **os.environ,
                "STEPTIME_KERNEL": kernel,
                "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            },
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found.append(done.stdout)
    assert found[0] == found[1]
    assert found[0].count("(") > 12


@pytest.mark.slow
def test_what_is_built_is_of_the_torch_that_is_there(tmp_path: Path) -> None:
    build(tmp_path / "_dispatch.so")
    assert (tmp_path / "_dispatch.so").stat().st_size > 0
