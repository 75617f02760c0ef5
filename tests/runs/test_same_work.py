"""What two runs must share to be compared: all that their specifications say."""

import copy
from dataclasses import fields
from typing import Any

import pytest

from runs.test_record import left
from steptime.errors import UsageError
from steptime.runs.record import Work, run_record
from steptime.runs.same_work import Facts, check_same_work, facts_of, told_differences

SPEC = {
    "model": "gpt2 nano",
    "batch": 32,
    "bucket": 26214400,
    "schedule": None,
    "strategy": "overlapped",
}


def facts(raw: dict[str, Any], strategy: str | None = None) -> Facts:
    record = run_record(raw, "x")
    return facts_of(record, strategy or next(iter(record.strategies)))


def refusal(one: Facts, other: Facts) -> str:
    with pytest.raises(UsageError, match="a and b cannot be compared") as refused:
        check_same_work([("a", one), ("b", other)])
    return str(refused.value)


@pytest.mark.parametrize("name", ["compare", "train", "simulate", "preset", "proxy_live"])
def test_equal_runs_of_version_1_are_compared(name: str) -> None:
    check_same_work([("a", facts(left(name))), ("b", facts(left(name)))])


def test_proxies_of_version_1_that_called_otherwise_are_refused() -> None:
    # As fp32 in 4 micro-batches beside bf16 in 16, or another --bucket: other calls, other bytes.
    one, other = left("proxy_live"), left("proxy_live")
    other["calls"] = [call | {"bytes": call["bytes"] // 2} for call in other["calls"]]
    assert "calls of" in refusal(facts(one), facts(other))


def test_what_neither_says_is_not_the_same() -> None:
    raw = left("proxy_live")
    del raw["calls"]
    assert "a does not say its precision, its batch or its calls" in refusal(facts(raw), facts(raw))
    check_same_work([("a", facts(raw)), ("b", facts(raw))], same_command=True)


@pytest.mark.parametrize("field", [name for name in SPEC if name != "strategy"])
def test_every_field_of_the_specification_counts(field: str) -> None:
    for name in ("train", "proxy_live", "simulate"):
        one = left(name) | {"spec": SPEC}
        other = left(name) | {"spec": SPEC | {field: "else"}}
        check_same_work([("a", facts(one)), ("b", facts(copy.deepcopy(one)))])
        assert "else" in refusal(facts(one), facts(other))


def test_what_only_one_specification_says_is_not_the_same() -> None:
    one, other = left("train") | {"spec": SPEC}, left("train") | {"spec": SPEC | {"zero": 1}}
    check_same_work([("a", facts(one)), ("b", facts(other))])  # a strategy by another name
    other = left("train") | {"spec": SPEC | {"recompute": "full"}}
    assert "no recompute said and recompute full" in refusal(facts(one), facts(other))
    assert "no bucket said" in refusal(facts(left("train")), facts(one))


@pytest.mark.parametrize("field", [one.name for one in fields(Work) if one.name != "spec"])
def test_what_may_be_the_reason_is_told_and_the_rest_refused(field: str) -> None:
    value: Any = {"x": 1} if field in ("axes", "model_config") else 77
    value = (
        "other" if field in ("model", "precision", "reduce_dtype", "rounding", "data") else value
    )
    value = {"stand_in": "busy"} if field == "compute" else value
    value = "1/3" if field in ("scale_bytes", "program", "preset", "preset_source") else value
    value = True if field == "compiled" else value
    one, other = facts(left("train")), facts(left("train") | {field: value})
    if field in ("compiled", "seed", "data"):
        check_same_work([("a", one), ("b", other)])
        assert [told["what"] for told in told_differences([one], [other])] == [field]
    else:
        assert "cannot be compared" in refusal(one, other)


def test_another_strategy_is_told() -> None:
    raw = left("compare")
    one, other = facts(raw, "server"), facts(raw, "overlapped")
    check_same_work([("a", one), ("b", other)])
    assert list(told_differences([one], [other])) == [
        {"what": "strategy", "a": "server", "b": "overlapped"}
    ]
