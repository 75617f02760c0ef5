"""Runs of the verbs that leave a page of their own, as their run.json has them."""

from pathlib import Path
from typing import Any

from runs_made import environment, training
from steptime.report.bench_page import write_bench
from steptime.report.check_page import write_check
from steptime.report.diff_page import write_diff
from steptime.report.pipeline_page import write_pipeline
from steptime.study.diff import diff
from steptime.study.diff_runs import read_side
from steptime.workloads.pipelines import pipeline, pipeline_timeline

SIZES = (1 << 10, 1 << 16, 1 << 22)
TIMES_US = {"builtin": (20.0, 60.0, 3600.0), "ring": (90.0, 70.0, 2000.0)}
_PLACE = {"run": "runs/one", "backend": "gloo", "ranks": 4, "threads": 1, "op": "all_reduce"}


def contests() -> list[dict[str, Any]]:
    """Builtin wins the smallest size, nobody the next, and ring the largest."""
    found = []
    for at, size in enumerate(SIZES):
        times = {name: of[at] for name, of in TIMES_US.items()}
        fastest = min(times, key=lambda name: times[name])
        level = [name for name in times if name != fastest] if at == 1 else []
        ratios = {name: time / times[fastest] for name, time in times.items()}
        found.append(
            {
                "size_bytes": size,
                "winner": None if level else fastest,
                "level_with": level,
                "ratios": {
                    name: {"against_best": ratio, "ci99": [0.8 * ratio, 1.2 * ratio]}
                    for name, ratio in ratios.items()
                },
                "selected": "builtin" if at < 2 else "ring",
                "fastest": fastest,
                "time_us": times,
            }
        )
    return found


def bench_run(wrong: int = 0) -> dict[str, Any]:
    """Two algorithms at three sizes; ``wrong`` elements of each result are."""
    rows = []
    for at, size in enumerate(SIZES):
        for name, times in TIMES_US.items():
            rate = size / times[at] / 1e3
            half = {"time_us": times[at], "algbw_GBps": rate, "busbw_GBps": 1.5 * rate}
            ratio = contests()[at]["ratios"][name]
            rows.append(
                {
                    "size_bytes": size,
                    "algorithm": name,
                    "out_of_place": half | {"wrong": wrong},
                    "in_place": None,
                    "p50_us": times[at],
                    "p99_us": 3 * times[at],
                    "cv": 0.1,
                    **ratio,
                }
            )
    fit = {"alpha_us": 20.0, "beta_GBps": 1.2, "residual": 0.2}
    return {
        "verb": "bench",
        **_PLACE,
        "rows": rows,
        "contests": contests(),
        "fits": {"ring": fit},
        "environment": environment(),
    }


def tune_run() -> dict[str, Any]:
    """The selection of the same."""
    return {
        "verb": "tune",
        **_PLACE,
        "selection": "builtin:0-64KiB;ring:64KiB-max",
        "variable": "STEPTIME_ALL_REDUCE",
        "contests": contests(),
        "environment": environment(),
    }


def check_run(found: bool = True) -> dict[str, Any]:
    """Two ranks that call different collectives, or nothing wrong."""
    places = [{"rank": rank, "file": "/home/me/branch.py", "line": 6 + rank} for rank in (0, 1)]
    finding = {
        "kind": "mismatch",
        "ranks": [0, 1],
        "places": places,
        "what": "Call 2 differs in its kind: rank 0 makes barrier, rank 1 makes all_reduce.",
        "mend": "Let every rank of the group call the same collectives in the same order.",
        "since_s": 1.2,
        "gain": None,
    }
    return {
        "verb": "check",
        "run": "runs/check",
        "ok": not found,
        "findings": [finding] if found else [],
        "command": ["python", "branch.py"],
        "ranks": 2,
        "exit_code": None if found else 0,
        "ended_by_check": found,
        "stacks": {"0": ["/home/me/branch.py:6 in <module>"]} if found else {},
        "environment": environment(),
    }


def diff_run(folder: Path) -> dict[str, Any]:
    """A run whose steps take a fifth longer than another's; both lie in ``folder``."""
    for name, seconds in (("a", 0.1), ("b", 0.12)):
        steps = [seconds * (1 + 0.002 * (at % 3)) for at in range(30)]
        training(folder / name, steps, environment=environment())
    a, b = (read_side(str(folder / name), None) for name in "ab")
    return diff(a, b).record() | {"run": "runs/diff", "environment": environment()}


def bench(path: Path) -> None:
    """Algorithms that were measured."""
    write_bench(path, bench_run())


def tune(path: Path) -> None:
    """A selection."""
    write_bench(path, tune_run())


def check(path: Path) -> None:
    """A job that stood still."""
    write_check(path, check_run())


def diff_page(path: Path) -> None:
    """A step that became slower."""
    write_diff(path, diff_run(path.parent))


def pipeline_page(path: Path) -> None:
    """A pipeline of chunks."""
    made = pipeline("interleaved", stages=4, micro_batches=8, chunks=2)
    write_pipeline(path, pipeline_timeline(made))


PAGES = {
    "bench": bench,
    "tune": tune,
    "check": check,
    "diff": diff_page,
    "pipeline": pipeline_page,
}
"""Who writes the page of each kind to a path; the folder it lies in is empty."""
