"""Folders of runs with steps of given lengths, as a training or a proxy leaves them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from steptime.runs.run_folder import write_record
from steptime.timeline import INTERVAL, MESSAGE, Phase, Timeline, write_chrome_trace

ENVIRONMENT = {
    "format": 1,
    "time": "2026-11-20T18:00:00+00:00",
    "command": ["steptime", "train"],
    "host": "a",
    "cpu": "a processor",
    "cores": 2,
    "versions": {"torch": "2.13.0"},
    "git_revision": "0123456789ab",
}
WARMUP = 2


def environment(**other: Any) -> dict[str, Any]:
    return ENVIRONMENT | other


def figures(**other: Any) -> dict[str, Any]:
    """What run.json holds of a strategy."""
    parts = dict.fromkeys(("compute_s", "exposed_comm_s", "update_s", "other_s"), 0.0)
    moved = {"bytes_sent_per_rank": [0, 0], "bytes_received_per_rank": [0, 0]}
    step = dict.fromkeys(("median", "p10", "p90"), 0.1)
    return {"source": "measured", "step_time_s": step, **parts, **moved, "ranks": []} | other


def timeline(
    steps: Sequence[float], name: str, *, comm: float = 0.25, update: float = 0.125
) -> Timeline:
    """Two ranks, of which the second waits for the first: each step computes, sends and updates.

    ``comm`` is the part of a step that communicates, ``update`` that which updates; 1/64 of it is
    nothing, and the rest computes.
    """
    rows = []
    for rank in range(2):
        at = 0.0
        for step, length in enumerate(steps):
            ends = at + length * np.array([1 - comm - update - 1 / 64, 1 - update - 1 / 64, 1])
            rows.append((rank, 0, 0, Phase.STEP, step, at, at + length, 0, 0))
            for place, (phase, start, end) in enumerate(
                [
                    (Phase.COMPUTE, at, ends[0]),
                    (Phase.COMMUNICATION, ends[0], ends[1]),
                    (Phase.UPDATE, ends[1], ends[1] + update * length),
                ]
            ):
                rows.append((rank, 1, 1 + place, phase, step, start, end, 0, 0))
            at += 1.5 * length
    return Timeline(
        source="measured",
        ranks=2,
        names=(name, "forward", "all_reduce", "update"),
        streams=("step", "compute"),
        intervals=np.array(rows, INTERVAL),
        messages=np.empty(0, MESSAGE),
    )


def training(
    folder: Path,
    steps: Sequence[float],
    *,
    strategy: str = "overlapped",
    phases: Mapping[str, float] | None = None,
    **other: Any,
) -> Path:
    """A run of train whose timed steps take ``steps`` seconds, after a slow warm-up."""
    every = [9.0] * WARMUP + list(steps)
    p10, median, p90 = np.percentile(steps, [10, 50, 90]).tolist()
    step = {"median": median, "p10": p10, "p90": p90}
    entry = figures(step_time_s=step, tokens_per_s=1000 / median, exposed_comm_s=median / 4)
    record = {
        "verb": "train",
        "model": "gpt2-nano",
        "model_config": {"layers": 4},
        "precision": "fp32",
        "ranks": 2,
        "threads": 1,
        "batch": 32,
        "accumulate": 1,
        "backend": "gloo",
        "warmup": WARMUP,
        "strategies": {strategy: entry},
        "environment": environment(),
    }
    folder.mkdir(parents=True)
    write_record(folder, record | other)
    made = timeline(every, strategy, **(phases or {}))
    write_chrome_trace(folder / "trace.json.gz", made)
    return folder


def proxy(folder: Path, steps: Sequence[float], *, kept: int, **other: Any) -> Path:
    """A run of proxy of these timed steps, whose trace has the last ``kept``."""
    record = {
        "verb": "proxy",
        "model": "bert",
        "program": "a step",
        "source": "measured",
        "ranks": 2,
        "step_time_s": {"median": float(np.median(steps)), "p10": 0.1, "p90": 0.2, "cv": 0.1},
        "steps_s": list(steps),
        "spec": {"precision": "fp32", "batch": 16},
        "compute": {"stand_in": "nothing", "times": "", "source": "computed"},
        "per_rank": [{"rank": rank, "coords": {}, "predicted_bytes": {}} for rank in range(2)],
        "environment": environment(),
    }
    folder.mkdir(parents=True)
    write_record(folder, record | other)
    write_chrome_trace(folder / "trace.json.gz", timeline(steps[len(steps) - kept :], "a step"))
    return folder
