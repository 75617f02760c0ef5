"""Records of runs: those of version 1 are read, nothing of them is lost, and what is wrong is told.

The files in ``version_1`` were left by the last steptime that wrote that version.
"""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steptime.errors import UsageError
from steptime.runs.proxy_record import proxy_json, proxy_record
from steptime.runs.record import RunRecord, run_record, to_json, took_steps

TRAINED = ("compare", "train")
SIMULATED = ("simulate", "preset")
PROXIES = ("proxy_there", "proxy_live")


def left(name: str) -> dict[str, Any]:
    path = Path(__file__).parent / "version_1" / f"{name}.json.gz"
    return dict(json.loads(gzip.decompress(path.read_bytes())))


def record_of(name: str) -> RunRecord:
    return run_record(left(name), name)


def lost(before: Any, after: Any, path: str = "") -> list[str]:
    """Where ``after`` has not what ``before`` has."""
    if isinstance(before, dict) and isinstance(after, dict):
        found = [lost(of, after.get(key), f"{path}.{key}") for key, of in before.items()]
        return [one for many in found for one in many]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [one for at, both in pairs for one in lost(*both, f"{path}[{at}]")]
    return [] if before == after else [path]


@pytest.mark.parametrize("name", TRAINED + SIMULATED + PROXIES)
def test_what_is_read_is_written_again_without_a_loss(name: str) -> None:
    assert lost(left(name), to_json(record_of(name))) == []


@pytest.mark.parametrize("name", TRAINED + SIMULATED + PROXIES)
def test_the_parts_of_every_step_add_up(name: str) -> None:
    for figures in record_of(name).strategies.values():
        parts = figures.compute_s + figures.exposed_comm_s + figures.update_s + figures.other_s
        assert parts == pytest.approx(figures.step_time_s.median, rel=1e-6)
        assert len(figures.bytes_sent_per_rank) == len(figures.ranks)


@pytest.mark.parametrize("name", PROXIES)
def test_a_proxy_is_written_with_the_fields_that_it_has_always_had(name: str) -> None:
    written = to_json(record_of(name))
    fits = (written.get("model_memory") or {}).get("fits")
    assert written.pop("fits", None) is fits
    assert written == left(name)


def test_a_plan_that_nobody_ran_is_read_and_written_again() -> None:
    ran = proxy_record(left("proxy_there"))
    raw = proxy_json(replace(ran, step=None, run=None))
    assert (raw["dry_run"], raw["source"], raw["step_time_s"]) == (True, "computed", None)
    assert "phases" not in raw
    again = proxy_record(raw)
    assert (again.step, again.plan) == (None, ran.plan)


@pytest.mark.parametrize("name", PROXIES)
def test_a_proxy_is_a_run_of_one_strategy(name: str) -> None:
    record = record_of(name)
    (figures,) = record.strategies.values()
    assert record.fastest == "gpt2-124M"
    assert record.step_name("gpt2-124M") == left(name)["program"]
    assert figures.source == left(name)["source"]
    assert figures.exposed_comm_s > 0
    assert record.proxy is not None
    assert record.place.world_size == len(record.proxy.plan.per_rank) == len(figures.ranks)
    assert all(np.isnan(rank.compute_s) for rank in figures.ranks), "only a timeline tells"


def test_a_proxy_that_was_simulated_too_has_both_steps() -> None:
    record = record_of("proxy_live")
    assert record.simulated is not None
    there = record.simulated.strategies["gpt2-124M"]
    assert there.step_time_s.median == left("proxy_live")["simulated"]["step_time_s"]["median"]
    assert record.simulated.cluster == "office-10gbe"


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        (("strategies", "server", "step_time_s"), 3, "step_time_s"),
        (("strategies", "server", "source"), "guessed", "source"),
        (("strategies", "server", "bytes_sent_per_rank"), ["many"], r"bytes_sent_per_rank\[0\]"),
        (("environment",), {}, "time"),
        (("warmup",), "three", "warmup"),
        (("world_size",), 0, "0 ranks have no run"),
        (("strategies", "server", "pairs"), {"src": [0], "dst": [9], "bytes": [1]}, "10 ranks of"),
        (("strategies", "server", "pairs"), {"src": [0], "dst": [], "bytes": [1]}, "each"),
    ],
)
def test_a_field_that_is_wrong_is_named(path: tuple[str, ...], value: Any, why: str) -> None:
    raw = left("compare")
    within = raw
    for key in path[:-1]:
        within = within[key]
    within[path[-1]] = value
    with pytest.raises(UsageError, match=rf"run.json of x is not whole .*{why}"):
        run_record(raw, "x")


def test_a_field_that_is_missing_is_named() -> None:
    raw = left("compare")
    del raw["strategies"]["server"]["compute_s"]
    with pytest.raises(UsageError, match="compute_s"):
        run_record(raw, "x")


def test_a_newer_record_may_say_more() -> None:
    raw = left("train") | {"mfu": 0.4}
    assert run_record(raw, "x") == record_of("train")


def test_other_verbs_took_no_steps() -> None:
    assert all(took_steps(left(name)) for name in TRAINED + SIMULATED + PROXIES)
    assert not took_steps({"verb": "bench", "rows": []})
    assert not took_steps({"verb": "proxy", "dry_run": True, "phases": None, "step_time_s": None})
