"""``record`` and ``check`` of scripts on a GPU, by the clock of that GPU."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU is at hand")

# Each step is queued within a few milliseconds, and takes the GPU many times as long.
STEPS = """
import os, sys, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

BACKEND = sys.argv[1]
dist.init_process_group(BACKEND)
torch.cuda.set_device(0)
torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Linear(4096, 4096, bias=False) for _ in range(4))).cuda()
model = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
x = torch.randn(8192, 4096, device="cuda")

def step():
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()

for _ in range(12):  # in its first ten DDP waits for the GPU
    step()
torch.cuda.synchronize()
begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
begin.record()
queued = time.perf_counter()
for _ in range(10):
    step()
queued = time.perf_counter() - queued
end.record()
end.synchronize()
if dist.get_rank() == 0:
    print("STEP", begin.elapsed_time(end) / 10, 1e3 * queued / 10)
dist.destroy_process_group()
"""

GRAPH = """
import torch, torch.distributed as dist

dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
weight = torch.randn(256, 256, device="cuda", requires_grad=True)
x = torch.randn(64, 256, device="cuda")
optimizer = torch.optim.SGD([weight], lr=1e-3)

def step():
    (x @ weight).square().mean().backward()
    dist.all_reduce(weight.grad)
    optimizer.step()

stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    for _ in range(3):
        step()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    step()
before = weight.detach().clone()
for _ in range(5):
    graph.replay()
torch.cuda.synchronize()
assert not torch.equal(before, weight)
print("REPLAYED")
dist.destroy_process_group()
"""

CROSSED = """
import torch, torch.distributed as dist

dist.init_process_group("gloo")
torch.cuda.set_device(0)
rank = dist.get_rank()
groups = [dist.new_group([0, 1]) for _ in range(2)]
x = torch.ones(1000, device="cuda")
for group in groups if rank else reversed(groups):
    dist.all_reduce(x, group=group)
"""


def test_a_step_takes_what_the_gpu_takes(tmp_path: Path) -> None:
    answer, output = recorded(tmp_path, STEPS, "nccl", ranks=1)
    by_script, queued = told(output)
    step = of_script(answer)["step_time_s"]["median"] * 1e3

    assert answer["script"]["by_gpu"]
    assert queued < by_script / 2, "the script does not run ahead, and the test proves nothing"
    assert step == pytest.approx(by_script, rel=0.05)


def test_a_backward_takes_longer_than_a_forward_as_its_products_do(tmp_path: Path) -> None:
    recorded(tmp_path, STEPS, "nccl", ranks=1)
    parts = seconds_by_name(tmp_path)

    # The first layer's input needs no gradient: seven products for four.
    assert parts["backward"] / parts["forward"] == pytest.approx(7 / 4, rel=0.25)
    assert parts["optimizer"] < parts["forward"]


def test_two_ranks_that_share_a_gpu(tmp_path: Path) -> None:
    answer, output = recorded(tmp_path, STEPS, "gloo", ranks=2)
    figures = of_script(answer)

    assert figures["step_time_s"]["median"] * 1e3 == pytest.approx(told(output)[0], rel=0.1)
    assert max(figures["bytes_sent_per_rank"]) > 0.9 * 4 * 4096 * 4096 * 4


def test_a_graph_is_captured_and_replayed_as_without(tmp_path: Path) -> None:
    _, output = recorded(tmp_path, GRAPH, ranks=1)

    assert "REPLAYED" in output


def test_a_deadlock_of_tensors_on_a_gpu_is_told(tmp_path: Path) -> None:
    file = tmp_path / "crossed.py"
    file.write_text(CROSSED)

    ended = steptime("check", "--ranks", "2", "--json", str(file), cwd=tmp_path)

    kinds = [one["kind"] for one in json.loads(ended.stdout)["findings"]]
    assert ended.returncode == 1
    assert "deadlock" in kinds


def test_a_training_on_nccl_is_without_findings(tmp_path: Path) -> None:
    file = tmp_path / "steps.py"
    file.write_text(STEPS)

    ended = steptime("check", "--ranks", "1", "--json", str(file), "nccl", cwd=tmp_path)

    assert json.loads(ended.stdout)["findings"] == []


def recorded(folder: Path, script: str, *words: str, ranks: int) -> tuple[Any, str]:
    """The answer of ``record``, and what the script printed."""
    file = folder / "script.py"
    file.write_text(script)
    options = ["--ranks", str(ranks), "--json", "--out", str(folder / "run")]
    ended = steptime("record", *options, str(file), *words, cwd=folder)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout), ended.stderr


def told(output: str) -> tuple[float, float]:
    """Milliseconds of a step by the script: what the GPU took, and what queueing it did."""
    words = next(line for line in output.splitlines() if "STEP" in line).split()
    at = words.index("STEP")
    return float(words[at + 1]), float(words[at + 2])


def of_script(answer: Any) -> Any:
    """The figures of the only strategy there is."""
    (figures,) = answer["strategies"].values()
    return figures


def seconds_by_name(folder: Path) -> dict[str, float]:
    """Seconds of each part of the script, over all steps but the first."""
    from steptime.study.recorded import recorded as read

    _, timeline = read(folder / "run")
    found: dict[str, float] = {}
    for one in timeline.intervals:
        if timeline.streams[one["stream"]] == "script" and one["step"] > 0:
            name = timeline.names[one["name"]]
            found[name] = found.get(name, 0.0) + float(one["end"] - one["start"])
    return found


def steptime(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "steptime", *words]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=240, check=False
    )
