"""compare from end to end, on ranks that the command starts itself."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
from command import FILES, HANG_S, Ended, run, tiny

from forked import forked
from steptime.strategies import live_strategies
from steptime.timeline import Phase, read_chrome_trace

STRATEGIES = [
    *("server", "replicated", "sharded", "shared", "sliced"),
    *("overlapped", "overlapped_sharded"),
]
RANKS, STEPS, WARMUP = 2, 3, 1
PARAMETERS = 256 * 32 + 32 * 32 + 12 * 32 * 32 + 13 * 32 + 2 * 32
PHASES = ("compute_s", "exposed_comm_s", "update_s", "other_s")
CONTRACT = {
    "verb": str,
    "run": str,
    "model": str,
    "ranks": int,
    "threads": int,
    "backend": str,
    "precision": str,
    "strategies": dict,
}
CONTRACT_OF_STRATEGY = {
    "source": str,
    "step_time_s": dict,
    **dict.fromkeys(PHASES, float),
    "bytes_sent_per_rank": list,
    "bytes_received_per_rank": list,
    "tokens_per_s": float,
    "loss": list,
    "parameter_hash": list,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("compare")


@pytest.fixture(scope="module")
def compared(text: Path, folder: Path) -> Ended:
    words = tiny(text, ranks=RANKS, steps=STEPS, warmup=WARMUP, json=True, out="run")
    return forked("compare", *words, folder=folder)


@pytest.fixture(scope="module")
def answer(compared: Ended) -> dict[str, Any]:
    assert (compared.code, compared.err) == (0, "")
    return compared.json


@pytest.fixture(scope="module")
def entries(answer: dict[str, Any]) -> dict[str, Any]:
    return answer["strategies"]


def test_a_person_gets_a_table_and_a_run_directory(text: Path, tmp_path: Path) -> None:
    few = ["server", "overlapped"]
    words = tiny(text, ranks=RANKS, warmup=0, strategies=",".join(few))
    ended = forked("compare", *words, folder=tmp_path, environ={"COLUMNS": "160"})
    assert (ended.code, ended.err) == (0, "")
    for name in few:
        assert re.search(rf"^ *{name} +\d", ended.out, re.MULTILINE), name
    assert "\x1b" not in ended.out
    (folder,) = (tmp_path / "runs").glob("compare-*")
    assert sorted(path.name for path in folder.iterdir()) == FILES
    assert f"runs/{folder.name}/report.html" in ended.out


def test_json_has_every_field_of_the_contract(answer: dict[str, Any]) -> None:
    assert {name: type(answer[name]) for name in CONTRACT} == CONTRACT
    about = {name: answer[name] for name in ("verb", "run", "ranks", "backend", "precision")}
    assert about == {
        "verb": "compare",
        "run": "run",
        "ranks": RANKS,
        "backend": "gloo",
        "precision": "fp32",
    }
    assert list(answer["strategies"]) == STRATEGIES == list(live_strategies())


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_has_every_field_of_the_contract(entries: dict[str, Any], name: str) -> None:
    entry = entries[name]
    assert {field: type(entry[field]) for field in CONTRACT_OF_STRATEGY} == CONTRACT_OF_STRATEGY
    assert entry["source"] == "measured"
    times = entry["step_time_s"]
    assert set(times) == {"median", "p10", "p90"}
    assert 0 < times["p10"] <= times["median"] <= times["p90"] < HANG_S
    for field in ("bytes_sent_per_rank", "bytes_received_per_rank"):
        assert [type(count) for count in entry[field]] == [int] * RANKS
    assert len(entry["loss"]) == WARMUP + STEPS + STEPS  # a turn for each, with its lead-in
    assert all(math.isfinite(loss) for loss in entry["loss"])
    assert [type(digest) for digest in entry["parameter_hash"]] == [str] * RANKS
    assert entry["tokens_per_s"] == pytest.approx(4 * 32 / times["median"])


def test_run_json_is_what_was_printed(answer: dict[str, Any], folder: Path) -> None:
    assert sorted(path.name for path in (folder / "run").iterdir()) == FILES
    assert json.loads((folder / "run" / "run.json").read_text()) == answer


@pytest.mark.parametrize("name", STRATEGIES)
def test_phases_add_up_to_the_step(entries: dict[str, Any], name: str) -> None:
    entry = entries[name]
    total = sum(entry[phase] for phase in PHASES)
    assert total == pytest.approx(entry["step_time_s"]["median"], rel=0.01)
    assert [rank["rank"] for rank in entry["ranks"]] == list(range(RANKS))
    for rank in entry["ranks"]:
        assert all(rank[phase] >= 0 for phase in PHASES)
        assert sum(rank[phase] for phase in PHASES) == pytest.approx(rank["step_time_s"], rel=0.01)


def test_all_ranks_end_with_the_same_parameters_and_all_strategies_with_the_same_loss(
    entries: dict[str, Any],
) -> None:
    for entry in entries.values():
        assert len(set(entry["parameter_hash"])) == 1
        assert entry["loss"] == pytest.approx(entries["replicated"]["loss"], rel=1e-5)


def test_bytes_are_those_of_the_definitions(entries: dict[str, Any]) -> None:
    # On two ranks every strategy moves the gradients once and the parameters, or gradients again,
    # once, unless the ranks share these; where ranks own parts, the norm takes an all-reduce of one
    # float64 more.
    vector, norm = 4 * PARAMETERS, 8
    expected = dict.fromkeys(STRATEGIES, [vector + norm] * RANKS)
    expected |= dict.fromkeys(["replicated", "overlapped"], [vector] * RANKS)
    expected["shared"] = [vector // 2 + norm] * RANKS
    assert {name: entry["bytes_sent_per_rank"] for name, entry in entries.items()} == expected
    assert {name: entry["bytes_received_per_rank"] for name, entry in entries.items()} == expected


def test_the_wire_carries_what_the_collectives_need(entries: dict[str, Any]) -> None:
    replicated = entries["replicated"]
    measured = replicated["wire_bytes_sent_per_rank"]
    if measured is None:
        pytest.skip("this kernel does not count the bytes of a socket")
    assert min(measured) >= 0.95 * min(replicated["bytes_sent_per_rank"])


def test_the_trace_has_every_step_of_every_rank(answer: dict[str, Any], folder: Path) -> None:
    timeline = read_chrome_trace(folder / "run" / "trace.json.gz")
    assert (timeline.source, timeline.ranks) == ("measured", RANKS)
    for name in STRATEGIES:
        steps = timeline.steps_named(name)
        found = sorted((int(step["rank"]), int(step["step"])) for step in steps)
        assert found == [(r, s) for r in range(RANKS) for s in range(WARMUP + STEPS)]
    assert (timeline.intervals["phase"] == Phase.STEP).sum() == len(STRATEGIES) * RANKS * (
        WARMUP + STEPS
    )
    assert answer["steps"] == WARMUP + STEPS


def test_strategies_take_turns_in_an_order_drawn_anew(answer: dict[str, Any], folder: Path) -> None:
    turns = answer["turns"]
    order = [[b["strategy"] for b in turns["blocks"] if b["turn"] == at] for at in range(STEPS)]
    assert [sorted(names) for names in order] == [sorted(STRATEGIES)] * STEPS
    assert len({tuple(names) for names in order}) > 1
    assert (turns["seed"], turns["kept"]) == (0, True)
    timeline = read_chrome_trace(folder / "run" / "trace.json.gz")
    timed = {
        name: timeline.steps_named(name)[WARMUP : WARMUP + STEPS]["start"] for name in STRATEGIES
    }
    ran = [sorted(STRATEGIES, key=lambda name: timed[name][at]) for at in range(STEPS)]
    assert ran == order
    for block in turns["blocks"]:
        assert 0 < block["compute_s"] <= block["step_time_s"]
        assert block.get("others_cores", 0.0) >= 0


def test_a_winner_is_named_where_the_intervals_allow_it(answer: dict[str, Any]) -> None:
    ratios = answer["ratios"]
    assert sorted(ratios) == sorted(STRATEGIES)
    (best,) = [name for name, ratio in ratios.items() if ratio["ci95"] == [1, 1]]
    for ratio in ratios.values():
        low, high = ratio["ci95"]
        assert low <= ratio["against_best"] <= high
    above = {name for name, ratio in ratios.items() if ratio["ci95"][0] > 1}
    assert set(answer["level_with"]) >= set(STRATEGIES) - above - {best}
    assert answer["winner"] == (None if answer["level_with"] else best)


@pytest.mark.slow
def test_turns_go_on_until_a_difference_would_be_told(text: Path, tmp_path: Path) -> None:
    words = tiny(text, ranks=1, steps=1, warmup=0, strategies="replicated,sliced", json=True)
    ended = forked("compare", *words, "--see", "500%", folder=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    turns = ended.json["turns"]
    assert turns["see"] == 5.0
    assert 8 <= ended.json["steps"] == turns["steps"] < 60  # the least that see takes, or few more
    assert len(turns["blocks"]) == 2 * turns["steps"]


@pytest.mark.slow
def test_no_turn_begins_when_the_time_is_over(text: Path, tmp_path: Path) -> None:
    words = tiny(text, ranks=2, steps=1, warmup=0, strategies="replicated,sliced", json=True)
    ended = forked("compare", *words, "--see", "0.001%", "--within", "1us", folder=tmp_path)
    assert (ended.code, ended.err) == (0, "")
    assert ended.json["turns"]["steps"] == 1
    assert ended.json["winner"] is None  # one turn tells nothing


@pytest.mark.slow
def test_a_strategy_named_twice_runs_once(text: Path, tmp_path: Path) -> None:
    words = tiny(text, ranks=1, strategies="sliced,replicated,sliced", json=True, out="run")
    ended = forked("compare", *words, folder=tmp_path)
    assert (ended.code, list(ended.json["strategies"])) == (0, ["sliced", "replicated"])
    timeline = read_chrome_trace(tmp_path / "run" / "trace.json.gz")
    assert len(timeline.steps_named("sliced")) == ended.json["steps"]


@pytest.mark.slow
def test_it_ends_well_every_time(text: Path, tmp_path: Path) -> None:
    words = tiny(text, ranks=2, steps=1, warmup=0, strategies="overlapped", quiet=True, out="run")
    ends = [run("compare", *words, folder=tmp_path) for _ in range(3)]
    assert [(ended.code, ended.err) for ended in ends] == [(0, "")] * 3
