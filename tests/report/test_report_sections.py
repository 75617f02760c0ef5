"""Sections made from run.json and the timeline: calls, traffic, efficiencies, memory, proxies."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from report.typed import record
from steptime.errors import UsageError
from steptime.report.page import context
from steptime.report.read import read_runs
from steptime.report.sections.calls import call_table
from steptime.report.sections.efficiency import efficiency_tree
from steptime.report.sections.matrix import matrix_figures, traffic_of
from steptime.report.sections.memory import memory_tables
from steptime.report.subject import Run, Subject, subjects
from steptime.runs.run_folder import write_record
from steptime.timeline import Phase, Recorder, Timeline, merge

MakeRun = Callable[..., dict[str, Any]]
MakeTimeline = Callable[..., Timeline]
NAMES = ("server", "replicated")
SHARE = 842_496 * 4 // 4  # of the fixtures' model: what each of its calls carries


def subject_of(run: dict[str, Any], timeline: Timeline | None, name: str) -> Subject:
    found = subjects([Run("run", record(run), timeline)])
    return next(one for one in found if one.name == name)


def two_ranks(*calls: tuple[str, str, float, float, int], compute: float = 4.0) -> Timeline:
    """Two steps of ten seconds of two ranks that compute, then make ``calls``."""
    recorders = [Recorder(), Recorder()]
    for recorder in recorders:
        for step in range(2):
            recorder.step = step
            at = 10.0 * step
            recorder.add("step", "s", Phase.STEP, at, at + 10)
            recorder.add("compute", "forward", Phase.COMPUTE, at, at + compute)
            for stream, name, start, end, nbytes in calls:
                recorder.add(stream, name, Phase.COMMUNICATION, at + start, at + end, nbytes)
    return merge([recorder.timeline(rank, 2) for rank, recorder in enumerate(recorders)])


def test_a_row_of_calls_counts_and_times_and_divides(make_run: MakeRun) -> None:
    run = {**make_run("server"), "ranks": 2, "warmup": 1}
    run["strategies"] = {"s": run["strategies"]["server"]}
    timeline = two_ranks(
        ("comm", "all_reduce", 2, 4, 100),
        ("comm", "all_reduce", 4, 8, 100),
        ("comm", "all_gather", 8, 9, 50),
    )
    rows, left_out = call_table(subject_of(run, timeline, "s"))
    assert left_out == 0
    reduce, gather = rows
    assert (reduce.name, reduce.kind, reduce.members, reduce.nbytes) == (
        "all_reduce",
        "all_reduce",
        2,
        100,
    )
    assert (reduce.calls, reduce.seconds) == (2, 3)
    assert (reduce.share, reduce.exposed) == pytest.approx((0.6, 0.4)), "the first hides"
    assert reduce.algbw == pytest.approx(100 / 3)
    assert reduce.busbw == pytest.approx(100 / 3), "of two ranks 2 (n - 1) / n is 1"
    assert gather.busbw == pytest.approx(25)


def test_what_run_json_says_of_a_call_goes_before_its_name(make_run: MakeRun) -> None:
    run = {**make_run("server"), "ranks": 8}
    told = {"name": "forward attention", "stream": "tensor", "bytes": 100, "kind": "all_reduce"}
    run["strategies"] = {
        "s": {**run["strategies"]["server"], "calls": [told | {"group": "tensor", "members": 4}]}
    }
    timeline = two_ranks(
        ("tensor", "forward 3 attention", 4, 5, 100), ("tensor", "forward 4 attention", 5, 6, 100)
    )
    (row,), _ = call_table(subject_of(run, timeline, "s"))
    assert (row.name, row.kind, row.group, row.members) == (
        "forward attention",
        "all_reduce",
        "tensor",
        4,
    )
    assert row.busbw == pytest.approx(100 * 2 * 3 / 4)


def test_no_timeline_and_no_steps_have_no_calls(
    make_run: MakeRun, make_timeline: MakeTimeline
) -> None:
    run = make_run("server")
    assert call_table(subject_of(run, None, "server")) == ([], 0)
    other = make_timeline("sharded")
    assert call_table(subject_of(run, other, "server")) == ([], 0)


def test_the_traffic_of_training_is_computed_and_adds_up(
    make_run: MakeRun, make_timeline: MakeTimeline
) -> None:
    run = make_run("replicated")
    one = subject_of(run, make_timeline("replicated"), "replicated")
    calls = call_table(one)[0]
    assert traffic_of(one, calls) is not None
    traffic = traffic_of(one, calls)
    assert traffic is not None
    assert traffic.source == "computed"
    assert np.count_nonzero(traffic.sent) == 4, "a ring"
    assert traffic.sent.sum(axis=1) == pytest.approx(4 * [3 * 842_496 * 4 // 2])
    run["strategies"]["replicated"]["bytes_sent_per_rank"][1] *= 2
    one = subject_of(run, make_timeline("replicated"), "replicated")
    assert traffic_of(one, calls) is None, "what does not add up is not shown"


def test_pairs_of_run_json_are_the_heat_map_of_ranks_and_hosts(
    make_simulated: MakeRun, make_timeline: MakeTimeline
) -> None:
    run = make_simulated("replicated")
    entry = run["strategies"]["replicated"]
    entry["pairs"] = {"src": [0, 1, 2], "dst": [1, 2, 3], "bytes": [10, 20, 30]}
    for rank, host in zip(entry["ranks"], "aabb", strict=True):
        rank["host"] = host
    timeline = replace(make_timeline("replicated"), source="simulated")
    found = matrix_figures(subject_of(run, timeline, "replicated"), [])
    assert found is not None
    of_ranks, of_hosts = found["figures"]
    assert of_ranks["data"][0]["z"][1] == [0, 0, 20, 0]
    assert of_hosts["data"][0]["z"] == [[10, 20], [0, 30]]
    assert found["source"] == "simulated"
    assert (
        found["note"]
        .replace("\u00a0", " ")
        .startswith("60 B in a step, all ranks together, 33 % of it from one host to another.")
    )


def test_efficiencies_multiply_and_the_ideal_step_splits_one(make_simulated: MakeRun) -> None:
    run = make_simulated("replicated")
    entry = run["strategies"]["replicated"]
    for rank, compute in zip(entry["ranks"], (8, 6, 6, 4), strict=True):
        rank |= {"compute_s": compute, "update_s": 0.0, "step_time_s": 10.0}
    values = {level.title: level.cells[0][1] for level in tree(run)}
    assert values == {
        "parallel efficiency": pytest.approx(0.6),
        "load balance": pytest.approx(0.75),
        "communication": pytest.approx(0.8),
    }
    entry["ideal_step_s"] = 9.0
    values = {level.title: level.cells[0][1] for level in tree(run)}
    assert values["serialisation"] == pytest.approx(8 / 9)
    assert values["serialisation"] * values["transfer"] == pytest.approx(values["communication"])


def test_of_a_measured_step_the_efficiency_of_transfer_is_told_by_its_transfer(
    make_run: MakeRun,
) -> None:
    run = make_run("replicated")
    for rank in run["strategies"]["replicated"]["ranks"]:
        rank |= {"compute_s": 6.0, "update_s": 0.0, "step_time_s": 10.0, "transfer_s": 2.5}
    values = {level.title: level.cells[0][1] for level in tree(run)}
    assert values["transfer"] == pytest.approx(7.5 / 10)
    assert values["serialisation"] == pytest.approx(6 / 7.5)


def tree(run: dict[str, Any]) -> Any:
    return efficiency_tree(subjects([Run("run", record(run), None)]))


def test_ranks_that_never_compute_have_no_efficiency(make_run: MakeRun) -> None:
    run = make_run("server")
    for rank in run["strategies"]["server"]["ranks"]:
        rank |= {"compute_s": 0.0, "update_s": 0.0}
    assert tree(run) == []


def proxy_record() -> dict[str, Any]:
    moved = {"data": {"sent": 100, "received": 100}}
    return {
        "verb": "proxy",
        "model": "gpt2-124M",
        "program": "s",
        "ranks": 2,
        "source": "measured",
        "compute": {"times": "computing takes what it takes"},
        "step_time_s": {"median": 9.0, "p10": 8.0, "p90": 11.0},
        "phases": {
            "compute": {"mean_s": 4.0, "max_s": 4.0},
            "data": {"mean_s": 5.0, "max_s": 6.0},
            "other": {"mean_s": 1.0, "max_s": 1.0},
        },
        "under_way": {"data": 5.5},
        "per_rank": [
            {"rank": n, "coords": {"data": n}, "memory_bytes": 4096, "predicted_bytes": moved}
            for n in range(2)
        ],
        "calls": [
            {"name": "all_reduce", "stream": "data", "bytes": 100, "kind": "all_reduce"}
            | {"group": "data", "members": 2}
        ],
        "pairs": {"src": [0, 1], "dst": [1, 0], "bytes": [100, 100]},
        "environment": {"time": "2026", "command": ["steptime", "proxy", "gpt2-124M"], "host": "a"},
    }


def test_a_proxy_is_a_run_of_one_strategy() -> None:
    timeline = two_ranks(("data", "all_reduce", 4, 9, 100))
    shown = context([Run("run", record(proxy_record(), timeline), timeline)])
    assert shown["headline"].replace("\u00a0", " ") == (
        "A step of gpt2-124M takes 9.00 s; exposed communication bounds it: 50 % of the step, "
        "compute 40 %, other 10 %"
    )
    assert ("waiting for data", "5.00 s", "6.00 s", "5.50 s") in shown["axes"]
    (calls,) = shown["calls"]
    assert calls["rows"][0]["group"] == "data 2"
    assert shown["figures"]["matrix"][0]["source"] == "computed"
    assert shown["efficiency"][0].title == "parallel efficiency"
    (memory,) = shown["memory"]
    assert memory.sentence == "The buffers of a rank take 4.10 kB at most."
    assert shown["figures"]["parts"]["data"][0]["y"] == [0, 1], "its two ranks are alike"


def test_a_proxy_that_was_simulated_too_stands_beside_itself() -> None:
    run = proxy_record()
    run["simulated"] = {
        "source": "simulated",
        "cluster": "here",
        "cluster_title": "this machine",
        "fidelity": "message",
        "step_time_s": {"median": 6.0, "p10": 6.0, "p90": 6.0},
        "phases": {"compute": {"mean_s": 4.0}, "data": {"mean_s": 2.0}},
    }
    beside = context([Run("run", record(run, two_ranks()), two_ranks())])["beside"]
    ((name, (step, compute, exposed)),) = beside.rows
    assert (name, step.left, step.right) == ("gpt2-124M", 9.0, 6.0)
    assert (compute.right, exposed.right) == (4.0, 2.0)


def test_memory_says_what_fits() -> None:
    run = proxy_record()
    memory = {"total": 90, "parameters": 40, "activations": 50, "device_bytes": 80}
    giga = {part: 10**9 * size for part, size in memory.items()}
    run["model_memory"] = giga | {"fits": False}
    axis = {"axis": "data", "size": 2, "in_host": 1, "hosts": 2, "sent_bytes": 1000}
    run["placement"] = [axis, axis | {"axis": "tensor", "size": 1}]
    (table,) = memory_tables(subjects([Run("run", record(run), None)]))
    assert "90.0 GB, which does not fit in the 80.0 GB of its device." in table.sentence
    assert table.axes == [("data", "2", "1", "2", "1.00 kB")]
    assert table.kept == [("parameters", "40.0 GB"), ("activations", "50.0 GB")]


def test_a_run_without_steps_is_refused_in_a_sentence(tmp_path: Path) -> None:
    for run, why in (
        ({"verb": "bench"}, "a run of bench, which took no step"),
        ({**proxy_record(), "dry_run": True, "phases": None}, "a plan that nobody ran"),
    ):
        write_record(tmp_path, run)
        with pytest.raises(UsageError, match=why):
            read_runs([tmp_path])


def test_several_runs_are_named_after_their_folders(
    make_run: MakeRun, make_simulated: MakeRun, make_timeline: MakeTimeline
) -> None:
    simulated = replace(make_timeline("replicated"), source="simulated")
    runs = [
        Run(
            "here", record(make_run("server", "replicated")), make_timeline("server", "replicated")
        ),
        Run("there", record(make_simulated("replicated")), simulated),
    ]
    shown = context(runs)
    assert shown["names"] == ["here: replicated", "there", "here: server"]
    assert shown["headline"].startswith(
        "Of 2 runs here: replicated has the shortest median: 34.1 ms a step"
    )
    assert shown["runs"] == ["here", "there"]
    apart = dict(shown["apart"])
    assert apart["source"] == ["measured", "simulated"]
    assert "model" not in apart
    assert "model gpt2-nano" in shown["same"]
    assert len(shown["commands"]) == 2
    assert all(shown["traces"])


def test_a_missing_timeline_leaves_the_tables_and_says_so(make_run: MakeRun) -> None:
    shown = context([Run("run", record(make_run("server")), None, "cannot read the trace")])
    assert shown["incomplete"] == ["run: cannot read the trace"]
    assert shown["traces"] == [None]
    assert shown["table"].rows
