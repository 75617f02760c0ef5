"""report, diff and simulate on traces of other tools: the doors to them."""

import json
from pathlib import Path
from typing import Any

import pytest
from command import here


def profile(step_ms: float, steps: int = 12) -> dict[str, Any]:
    """Steps of a GPU: half of each a kernel, then an all_reduce for a quarter of it."""
    found = []
    for step in range(steps):
        at = 1000 * step_ms * step
        length = 1000 * step_ms
        for cat, name, begin, part in (
            ("user_annotation", f"ProfilerStep#{step}", 0.0, 1.0),
            ("kernel", "gemm", 0.0, 0.5),
            ("kernel", "ncclDevKernel_AllReduce_Sum_f32", 0.5, 0.25),
        ):
            where = {"pid": 0, "tid": 7} if cat == "kernel" else {"pid": 1, "tid": 1}
            event = {"ph": "X", "cat": cat, "name": name, **where}
            found.append(event | {"ts": at + begin * length, "dur": part * length})
    return {"schemaVersion": 1, "distributedInfo": {"rank": 0}, "traceEvents": found}


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    """A folder with a trace before a change and one after it."""
    (tmp_path / "before.json").write_text(json.dumps(profile(10.0)))
    (tmp_path / "after.json").write_text(json.dumps(profile(8.0)))
    return tmp_path


def test_report_makes_a_run_of_a_trace(traces: Path) -> None:
    ended = here("report", "before.json", "--json", folder=traces)
    found = ended.json
    assert found["verb"] == "report"
    assert found["step_time_s"]["median"] == pytest.approx(0.010)
    assert found["compute_s"] == pytest.approx(0.005)
    assert found["exposed_comm_s"] == pytest.approx(0.0025)
    assert [(call["op"], call["calls_per_step"]) for call in found["calls"]] == [
        ("all_reduce", 1.0)
    ]
    page = traces / found["page"]
    assert page.exists()
    assert (page.parent / "run.json").exists()
    again = here("report", str(page.parent), "--json", folder=traces)
    assert again.json["incomplete"] == []


def test_report_of_traces_says_what_they_do_not_tell(traces: Path) -> None:
    text = " ".join(here("report", "before.json", folder=traces).out.split())
    assert "Read from a torch.profiler trace of 1 of 1 ranks; steps by ProfilerStep#." in text
    assert "Not told: the bytes of all_reduce." in text


def test_a_page_of_a_trace_goes_where_it_is_asked_to(traces: Path) -> None:
    assert here("report", "before.json", "--out", "page.html", folder=traces).code == 0
    page = (traces / "page.html").read_text()
    assert "Read from a torch.profiler trace" in page
    assert not (traces / "runs").exists()


def test_diff_tells_two_traces_apart(traces: Path) -> None:
    found = here("diff", "before.json", "after.json", "--json", folder=traces).json
    assert found["ratio"] == pytest.approx(0.8)
    assert found["different"] is True


def test_simulate_takes_the_step_of_a_trace(traces: Path) -> None:
    ended = here("simulate", "before.json", "--cluster", "laptop", "--json", folder=traces)
    # The kernel and what is left behind the all_reduce, which one rank alone makes in no time.
    assert ended.json["step_time_s"] == pytest.approx(0.0075, rel=1e-3)


@pytest.mark.parametrize("verb", [["report"], ["diff", "before.json"]])
def test_a_truncated_trace_is_one_sentence(traces: Path, verb: list[str]) -> None:
    (traces / "cut.json").write_text((traces / "before.json").read_text()[:500])
    ended = here(*verb, "cut.json", folder=traces)
    assert ended.code == 2
    (sentence,) = ended.err.splitlines()
    assert "cut.json is no whole JSON" in sentence
