import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steptime.timeline import Phase, Recorder, Timeline, merge

RANKS, STEPS, LAYERS = 4, 9, 4
MODEL_BYTES = 842_496 * 4
LINKS = [f"host{n} → switch" for n in range(3)]

# seconds of exposed communication, bytes sent and received by each rank in a step
STRATEGIES = {
    "server": (
        0.0212,
        [3 * MODEL_BYTES] + 3 * [MODEL_BYTES],
        [3 * MODEL_BYTES] + 3 * [MODEL_BYTES],
    ),
    "replicated": (0.0075, 4 * [3 * MODEL_BYTES // 2], 4 * [3 * MODEL_BYTES // 2]),
    "sharded": (0.0098, 4 * [9 * MODEL_BYTES // 4], 4 * [9 * MODEL_BYTES // 4]),
}
SUMMARIES = {
    "server": "reduce gradients to rank 0, update there, broadcast parameters",
    "replicated": "all-reduce gradients in buckets while the backward pass runs",
    "sharded": "every rank keeps its share of parameters, gradients and optimizer state",
}


def strategy(name: str) -> dict[str, Any]:
    exposed, sent, received = STRATEGIES[name]
    compute, update, other = 0.0241, 0.0017, 0.0008
    step = compute + exposed + update + other
    server = compute + STRATEGIES["server"][0] + update + other
    return {
        "source": "measured",
        "step_time_s": {"median": step, "p10": 0.97 * step, "p90": 1.06 * step},
        "compute_s": compute,
        "exposed_comm_s": exposed,
        "update_s": update,
        "other_s": other,
        "bytes_sent_per_rank": list(sent),
        "bytes_received_per_rank": list(received),
        "wire_bytes_sent_per_rank": [round(1.02 * count) for count in sent],
        "wire_bytes_received_per_rank": [round(1.02 * count) for count in received],
        "tokens_per_s": 16 * 128 / step,
        "speed_against_server": server / step,
        "loss": [5.55 * 0.97**at + 0.02 * (at % 3) for at in range(40)],
        "parameter_hash": 4 * ["9f2c"],
        "summary": SUMMARIES[name],
        "ranks": [
            {
                "rank": rank,
                "host": "a",
                "step_time_s": step,
                "compute_s": compute,
                "exposed_comm_s": exposed,
                "update_s": update,
                "other_s": other,
            }
            for rank in range(RANKS)
        ],
    }


def standing_of(*names: str) -> dict[str, Any]:
    """Replicated wins where it takes part, or else the first; in three turns of three steps."""
    winner = "replicated" if "replicated" in names else names[0]
    steps = {name: strategy(name)["step_time_s"]["median"] for name in names}
    ratios = {name: steps[name] / steps[winner] for name in names}
    return {
        "winner": winner,
        "level_with": [],
        "ratios": {
            name: {"against_best": ratio, "ci95": [ratio, ratio] if name == winner else
                   [0.98 * ratio, 1.02 * ratio]}
            for name, ratio in ratios.items()
        },
        "turns": {
            "seed": 0,
            "steps": STEPS,
            "lead_in": 1,
            "kept": True,
            "cores": 8,
            "blocks": [
                {"strategy": name, "turn": turn, "steps": 3, "step_time_s": steps[name],
                 "compute_s": 0.0241, "others_cores": 0.1, "stolen_cores": 0.0}
                for turn in range(3)
                for name in names
            ],
        },
    }  # fmt: skip


def run_of(*names: str) -> dict[str, Any]:
    return {
        "verb": "compare" if len(names) > 1 else "train",
        "run": "runs/compare-20261120-180000",
        "model": "gpt2-nano",
        "model_config": {
            "layers": LAYERS,
            "heads": 4,
            "hidden": 128,
            "context": 128,
            "vocabulary": 256,
            "parameters": 842_496,
        },
        "ranks": RANKS,
        "threads": 1,
        "backend": "gloo",
        "precision": "fp32",
        "batch": 16,
        "data": "Python standard library, 10.1 MB of text, byte tokens",
        **(standing_of(*names) if len(names) > 1 else {"winner": None}),
        "strategies": {name: strategy(name) for name in names},
        "environment": {
            "time": "2026-11-20T18:00:00+00:00",
            "command": ["steptime", "compare", "--ranks", "4", "--note", "two words"],
            "host": "a",
            "machine": "x86_64",
            "cpu": "AMD EPYC 7R13",
            "cores": 8,
            "kernel": "6.1.0",
            "python": "3.11.2",
            "steptime": "0.1.0",
            "versions": {"torch": "2.13.0", "numpy": "2.4.6"},
            "git_revision": None,
        },
    }


def simulated_run_of(*names: str) -> dict[str, Any]:
    """The same, as a simulation would have it."""
    run = run_of(*names)
    for field in ("threads", "backend", "data"):
        del run[field]
    run = {name: value for name, value in run.items() if name not in ("ratios", "turns")}
    run |= {"verb": "simulate", "source": "simulated", "fidelity": "message"}
    run |= {"cluster": "office", "cluster_title": "Four desks", "world_size": 4}
    run |= {"messages": 1234, "wall_s": 0.25, "ranks": [{"rank": n} for n in range(4)]}
    for entry in run["strategies"].values():
        median = entry["step_time_s"]["median"]
        entry |= {"source": "simulated", "loss": [], "parameter_hash": []}
        entry |= {"wire_bytes_sent_per_rank": None, "wire_bytes_received_per_rank": None}
        entry["step_time_s"] = dict.fromkeys(("median", "p10", "p90"), median)
        entry["link_use"] = {
            "bin_s": median / 4,
            "begin_s": 0.0,
            "links": LINKS,
            "utilisation": [[1.0, 0.5, 0.0, 0.0]] * 3,
            "left_out": 7,
        }
    return run


def timeline_of(*names: str, ranks: int = RANKS, steps: int = STEPS) -> Timeline:
    """Every strategy in turn; each step computes, then communicates while it still computes."""
    random = np.random.default_rng(0)
    recorders = [Recorder() for _ in range(ranks)]
    clock = 1.0
    for name in names:
        for step in range(steps):
            ends = [
                record_step(recorder, name, step, clock + random.uniform(0, 3e-4), random)
                for recorder in recorders
            ]
            clock = max(ends)
    return merge([recorder.timeline(rank, ranks) for rank, recorder in enumerate(recorders)])


def record_step(
    recorder: Recorder, name: str, step: int, begin: float, random: np.random.Generator
) -> float:
    recorder.step = step
    forward = begin + 0.008 * random.uniform(1, 1.1)
    recorder.add("compute", "forward", Phase.COMPUTE, begin, forward)
    backward, sent = forward, forward
    for layer in reversed(range(LAYERS)):
        start, backward = backward, backward + 0.004 * random.uniform(1, 1.1)
        recorder.add("compute", f"backward {layer}", Phase.COMPUTE, start, backward)
        start = max(sent, backward) if name == "server" else backward  # buckets may overlap
        sent = start + 0.0048 * random.uniform(1, 1.2)
        recorder.add("comm", "all_reduce", Phase.COMMUNICATION, start, sent, MODEL_BYTES // LAYERS)
    end = sent + 0.0017
    recorder.add("compute", "update", Phase.UPDATE, sent, end)
    if name == "sharded":
        recorder.add(
            "comm", "all_gather", Phase.COMMUNICATION, end - 5e-4, end + 0.0095, MODEL_BYTES
        )
    recorder.add("step", name, Phase.STEP, begin, end)
    return end


@pytest.fixture
def make_run() -> Callable[..., dict[str, Any]]:
    return run_of


@pytest.fixture
def make_simulated() -> Callable[..., dict[str, Any]]:
    return simulated_run_of


@pytest.fixture
def make_timeline() -> Callable[..., Timeline]:
    return timeline_of


HANG_MS = 600_000
CHROMIUM = shutil.which("chromium")
QUIET = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A real browser; a test that asks for it is skipped where there is none.

    One for each file: while playwright runs, so does an event loop, and others may start their own.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    if CHROMIUM is None:
        pytest.skip("no chromium here: apt-get install chromium")
    playwright.expect.set_options(timeout=HANG_MS)
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(
            executable_path=CHROMIUM, args=QUIET.split(), timeout=HANG_MS
        )
        yield running
        running.close()


@pytest.fixture
def open_html(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens an HTML file; when the test ends, nothing may have failed or left the disk."""
    complaints: list[str] = []
    contexts = []

    def watch(request: Any) -> None:
        if not request.url.startswith("file:"):
            complaints.append(f"request to {request.url}")

    def show(path: Path, width: int = 1280, **options: Any) -> Any:
        contexts.append(browser.new_context(viewport={"width": width, "height": 800}, **options))
        contexts[-1].set_default_timeout(HANG_MS)
        page = contexts[-1].new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", watch)
        page.goto(path.as_uri())
        return page

    yield show
    for context in contexts:
        context.close()
    assert complaints == []
