"""What all these jobs share: their arguments, their world, and how long their steps take.

Nothing here knows of steptime. What the library itself counted is its flight recorder's, which is
on where TORCH_FR_BUFFER_SIZE says so, and of messages, which gloo's leaves out, torch.profiler's:
of one step after those that are timed.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from math import prod
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn

WARMUP = 3


class Job:
    """A job on its ranks; ``rows`` of a batch are this rank's own."""

    def __init__(self, rows: int) -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("--backend", default="gloo")
        parser.add_argument("--steps", type=int, default=15)
        parser.add_argument("--times", type=float, default=1.0, help="rows, by this factor")
        parser.add_argument("--slow", type=int, default=-1, help="the rank of twice the rows")
        parser.add_argument("--leave", type=Path, help="where to leave figures, a file a rank")
        self.asked = parser.parse_args()
        torch.set_num_threads(1)
        torch.manual_seed(0)
        if self.asked.backend == "steptime":
            import steptime.backend  # noqa: F401
        dist.init_process_group(self.asked.backend)
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.rows = int(rows * self.asked.times) * (1 + (self.rank == self.asked.slow))
        self._took: list[float] = []
        self._messages: list[tuple[str, int]] = []

    def steps(self) -> Iterator[int]:
        """Number the steps, and time them."""
        dist.barrier()
        begin = time.perf_counter()
        for step in range(WARMUP + self.asked.steps):
            yield step
            end = time.perf_counter()
            self._took.append(end - begin)
            begin = end
        if self.asked.leave:
            with torch.profiler.profile(record_shapes=True) as profile:
                yield WARMUP + self.asked.steps
            self._messages = messages_of(profile)

    def end(self) -> None:
        """Leave what was asked for."""
        dist.barrier()
        if self.asked.leave:
            counted = None
            if self.asked.backend == "gloo":
                counted = torch._C._distributed_c10d._dump_fr_trace_json()
            found = {
                "step_s": statistics.median(self._took[WARMUP:]),
                "steps_s": self._took,
                "counted": json.loads(counted)["entries"] if counted else [],
                "messages": self._messages,
            }
            self.asked.leave.mkdir(parents=True, exist_ok=True)
            (self.asked.leave / f"{self.rank}.json").write_text(json.dumps(found))
        dist.destroy_process_group()


def messages_of(profile: torch.profiler.profile) -> list[tuple[str, int]]:
    """The messages that a profile shows, in order, all of them in fp32: send or recv, and bytes."""
    with tempfile.TemporaryDirectory() as folder:
        profile.export_chrome_trace(f"{folder}/trace.json")
        events = json.loads(Path(folder, "trace.json").read_text())["traceEvents"]
    kinds = {"c10d::send": "send", "c10d::recv_": "recv"}
    found = sorted((one for one in events if one.get("name") in kinds), key=lambda one: one["ts"])
    return [
        (kinds[one["name"]], sum(4 * prod(dims) for dims in one["args"]["Input Dims"][0]))
        for one in found
    ]


def layers(width: int, count: int) -> nn.Sequential:
    """So many layers of one width."""
    return nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(count)))


def noise(job: Job, width: int) -> Tensor:
    """A batch of this rank."""
    return torch.randn(job.rows, width)
