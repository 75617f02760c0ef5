"""Diffs of made runs: what differs is found, what does not is not, and what cannot is refused."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runs_made import environment, figures, proxy, training
from steptime.arrays import Floats
from steptime.errors import UsageError
from steptime.ratios import (
    CONFIDENCE,
    LEAST_PAIRS,
    blocks,
    independent,
    paired,
    t_quantile,
)
from steptime.runs.same_work import Facts
from steptime.study.diff import compared, diff
from steptime.study.diff_runs import PHASES, TimedRun, read_run, read_side

RUN_SPREAD = 0.02
WORK = {"model": "m", "ranks": 2, "precision": "fp32"}


STEPS = 40
ALIKE = np.tril(0.6 ** np.abs(np.subtract.outer(np.arange(STEPS), np.arange(STEPS))))
"""Makes independent steps such that each is 0.6 of the one before and something of its own."""


def series(generator: np.random.Generator, step_s: float) -> Floats:
    """Steps that resemble their neighbours, in a run that differs as a whole, with hiccups."""
    noise = ALIKE @ generator.normal(0, 0.04, STEPS)
    hiccups = generator.random(STEPS) < 0.03
    return np.asarray(step_s * np.exp(generator.normal(0, RUN_SPREAD) + noise + 0.7 * hiccups))


def made(steps: Floats) -> TimedRun:
    phases = np.outer(steps, [0.7, 0.2, 0.08, 0.02, 0.1, 0, 0.06, 0.04])
    facts = Facts(work=WORK, known=True, told={"git_revision": None})
    return TimedRun(Path("made"), "measured", steps, phases, facts, "")


def trials(
    count: int, runs: int, slower: float, *, in_pairs: bool = False
) -> list[tuple[float, bool, bool]]:
    """Ratio, whether the interval holds the truth, and whether a difference is told."""
    generator = np.random.default_rng(7)
    found = []
    for _ in range(count):
        a = [made(series(generator, 0.1)) for _ in range(runs)]
        b = [made(series(generator, 0.1 * (1 + slower))) for _ in range(runs)]
        answer = diff(a, b, in_pairs=in_pairs)
        low, high = answer.change.interval(CONFIDENCE)
        found.append((answer.ratio, low <= math.log1p(slower) <= high, answer.different))
    return found


@pytest.mark.parametrize(
    ("probability", "freedom", "value"),
    [
        (0.975, 1, 12.7062047362),
        (0.995, 1, 63.6567411629),
        (0.975, 4, 2.7764451052),
        (0.995, 9, 3.2498355416),
        (0.975, 30, 2.0422724563),
        (0.995, 1000, 2.5807546980),
        (0.975, math.inf, 1.9599639845),
    ],
)
def test_quantiles_of_students_t(probability: float, freedom: float, value: float) -> None:
    # of published tables, and scipy.stats.t.ppf
    assert t_quantile(probability, freedom) == pytest.approx(value, rel=1e-5)


def test_quantiles_lie_between_those_of_whole_degrees() -> None:
    assert t_quantile(0.975, 5) < t_quantile(0.975, 4.5) < t_quantile(0.975, 4)


def test_welch_on_numbers_worked_by_hand() -> None:
    # means 2 and 5, variances 1 and 4 over 3 and 3 values: v = 1/3 + 4/3, ν = v² / (1/18 + 16/18)
    estimate = independent(np.array([1.0, 2.0, 3.0]), np.array([3.0, 5.0, 7.0]))
    assert estimate.center == pytest.approx(3)
    assert estimate.error == pytest.approx(math.sqrt(5 / 3))
    assert estimate.freedom == pytest.approx((5 / 3) ** 2 / (17 / 18))


def test_a_single_value_is_taken_to_vary_as_the_others_do() -> None:
    estimate = independent(np.array([1.0, 2.0, 3.0]), np.array([5.0]))
    assert estimate.error == pytest.approx(math.sqrt(1 / 3 + 1))
    assert estimate.freedom == 2


def test_pairs_are_not_disturbed_by_what_both_share() -> None:
    drift = np.array([0.0, 5.0, 9.0, 2.0])
    a, b = drift, drift + np.array([1.0, 1.1, 0.9, 1.0])
    assert paired(a, b).excludes_zero(0.99)
    assert not independent(a, b).excludes_zero(0.95)


def test_blocks_are_few_and_long() -> None:
    assert [len(blocks(np.zeros(count))) for count in (8, 37, 1000)] == [2, 9, 10]


@pytest.mark.parametrize(("runs", "in_pairs"), [(1, False), (5, False), (10, True)])
def test_interval_holds_the_truth_of_steps_that_resemble_their_neighbours(
    runs: int, in_pairs: bool
) -> None:
    found = trials(200, runs, 0.05, in_pairs=in_pairs)
    assert sum(held for _, held, _ in found) >= 0.93 * len(found)


@pytest.mark.parametrize(("runs", "in_pairs"), [(1, False), (5, False), (10, True)])
def test_equal_runs_are_called_different_at_most_once_in_twenty(runs: int, in_pairs: bool) -> None:
    told = [different for _, _, different in trials(200, runs, 0.0, in_pairs=in_pairs)]
    twenties = np.array(told).reshape(10, 20).sum(axis=1)
    assert sum(told) <= 0.02 * len(told)
    assert (twenties <= 1).mean() >= 0.9


def test_fifteen_pairs_show_a_step_that_is_5_percent_slower() -> None:
    told = [d for _, _, d in trials(200, 15, 0.05, in_pairs=True)]
    assert sum(told) >= 0.95 * len(told)


def test_what_is_said_to_be_seen_is_seen_nearly_always() -> None:
    generator = np.random.default_rng(3)
    a, b = (generator.normal(0, 0.02, (500, 15)) for _ in range(2))
    least = float(
        np.mean([paired(*rows).least_seen(0.99, 0.95) for rows in zip(a, b, strict=True)])
    )
    told = [paired(*rows).excludes_zero(0.99) for rows in zip(a, b + least, strict=True)]
    assert np.mean(told) == pytest.approx(0.95, abs=0.03)


def taking_turns(
    generator: np.random.Generator, slower: float
) -> Iterator[tuple[TimedRun, TimedRun]]:
    """Pairs of runs, up to sixty."""
    for _ in range(60):
        yield made(series(generator, 0.1)), made(series(generator, 0.1 * (1 + slower)))


@pytest.mark.slow
def test_pairs_come_until_they_would_show_what_is_looked_for() -> None:
    generator = np.random.default_rng(7)
    equal = [compared(taking_turns(generator, 0.0), 0.05) for _ in range(250)]
    slower = [compared(taking_turns(generator, 0.05), 0.05) for _ in range(150)]
    assert sum(found.different for found in equal) <= 250 / 50
    # Nearly always is 95 %; of 150 that has a standard deviation of 1.8 %.
    assert sum(found.different for found in slower) >= (0.95 - 2 * 0.018) * 150
    assert all(found.sees(0.05) for found in (*equal, *slower))
    pairs = [len(found.a) for found in equal]
    assert min(pairs) >= LEAST_PAIRS
    assert LEAST_PAIRS < max(pairs) < 60


def test_all_pairs_come_where_nothing_is_looked_for_or_it_cannot_be_seen() -> None:
    generator = np.random.default_rng(12)
    for see in (None, 0.001):
        found = compared(taking_turns(generator, 0.0), see)
        assert [len(found.a), len(found.b)] == [60, 60]


def test_one_run_of_each_shows_a_step_that_is_25_percent_slower() -> None:
    found = trials(200, 1, 0.25)
    assert sum(different for _, _, different in found) >= 0.95 * len(found)
    assert np.median([ratio for ratio, _, _ in found]) == pytest.approx(1.25, abs=0.02)


def steps(step_s: float, count: int = 40, seed: int = 0) -> list[float]:
    noise = np.random.default_rng(seed).uniform(-0.02, 0.02, count)
    return (step_s * (1 + noise)).tolist()


def test_phases_add_up_to_the_step_and_their_shares_to_one(tmp_path: Path) -> None:
    training(tmp_path / "a", steps(0.1))
    # b computes as long as a and communicates for as long again
    training(tmp_path / "b", steps(0.125, seed=1), phases={"comm": 0.4, "update": 0.1})
    a, b = (read_side(str(tmp_path / side), None) for side in "ab")
    answer = diff(a, b)
    record = answer.record()
    phases = record["phases"]
    assert list(phases) == list(PHASES)
    for side in "ab":
        whole = sum(phase[f"{side}_s"] for phase in phases.values())
        assert whole == pytest.approx(record["step_time_s"][side])
    assert answer.different
    assert answer.ratio == pytest.approx(1.25, rel=0.01)
    assert sum(phase["share"] for phase in phases.values()) == pytest.approx(1)
    assert phases["exposed_comm"]["share"] == pytest.approx(1, abs=0.1)
    assert phases["exposed_comm"]["different"]
    assert not phases["compute"]["different"]
    parts = record["exposed"]
    assert list(parts) == ["transfer", "bubble", "imbalance", "dependency"]
    for field in ("a_s", "b_s", "difference_s", "share"):
        whole = sum(part[field] for part in parts.values())
        assert whole == pytest.approx(phases["exposed_comm"][field])
    assert parts["transfer"]["different"]
    assert not parts["bubble"]["different"], "there is none"


def test_warm_up_does_not_count(tmp_path: Path) -> None:
    training(tmp_path / "a", [0.1] * 8)
    run = read_run(tmp_path / "a", None)
    assert run.step_s.tolist() == pytest.approx([0.1] * 8)
    assert run.phase_s[:4].tolist() == pytest.approx(
        [0.1 * (1 - 0.25 - 0.125 - 1 / 64), 0.025, 0.0125, 0.1 / 64], rel=1e-6
    )


def test_a_run_is_not_different_from_itself(tmp_path: Path) -> None:
    training(tmp_path / "a", steps(0.1))
    a = read_side(str(tmp_path / "a"), None)
    answer = diff(a, a)
    assert (answer.ratio, answer.different) == (1.0, False)
    assert {phase["share"] for phase in answer.record()["phases"].values()} == {None}


def test_a_folder_of_runs_and_a_list_of_runs_are_sides(tmp_path: Path) -> None:
    for number in range(3):
        training(tmp_path / "a" / str(number), steps(0.1, seed=number))
        training(tmp_path / "b" / str(number), steps(0.11, seed=10 + number))
    listed = ",".join(str(tmp_path / "b" / str(number)) for number in range(3))
    answer = diff(read_side(str(tmp_path / "a"), None), read_side(listed, None))
    assert "3 and 3 runs" in answer.method
    assert answer.different
    assert answer.slower_by_more(0.05)
    assert not answer.slower_by_more(0.2)


def test_faster_is_not_slower_by_more(tmp_path: Path) -> None:
    for side, step_s in (("a", 0.2), ("b", 0.1)):
        training(tmp_path / side, steps(step_s))
    answer = diff(*(read_side(str(tmp_path / side), None) for side in "ab"))
    assert answer.different
    assert not answer.slower_by_more(0.0)


def test_what_may_be_the_reason_is_told(tmp_path: Path) -> None:
    training(tmp_path / "a", steps(0.1))
    training(tmp_path / "b", steps(0.1), backend="steptime", environment=environment(cpu="other"))
    record = diff(*(read_side(str(tmp_path / side), None) for side in "ab")).record()
    assert record["differs"] == [
        {"what": "backend", "a": "gloo", "b": "steptime"},
        {"what": "cpu", "a": "a processor", "b": "other"},
    ]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"model": "gpt2-micro"}, "gpt2-nano and gpt2-micro"),
        ({"ranks": 4}, "2 ranks and 4 ranks"),
        ({"precision": "bf16"}, "fp32 and bf16"),
        ({"verb": "compare"}, "train and compare"),
        ({"batch": 64}, "a batch of 32 and a batch of 64"),
        ({"model_config": {"layers": 5}}, "layers 4 and layers 5"),
    ],
)
def test_runs_of_other_work_are_refused(tmp_path: Path, other: dict[str, Any], said: str) -> None:
    training(tmp_path / "a", steps(0.1))
    training(tmp_path / "b", steps(0.1), **other)
    sides = [read_side(str(tmp_path / side), None) for side in "ab"]
    with pytest.raises(UsageError, match="cannot be compared") as refusal:
        diff(*sides)
    assert said in str(refusal.value)


def test_too_few_steps_for_an_interval_are_refused(tmp_path: Path) -> None:
    for side in "ab":
        training(tmp_path / side, [0.1, 0.1, 0.1])
    with pytest.raises(UsageError, match=r"3 timed steps and an interval needs 8"):
        diff(*(read_side(str(tmp_path / side), None) for side in "ab"))


def test_steps_of_no_length_are_refused(tmp_path: Path) -> None:
    proxy(tmp_path / "a", [0.0] * 9, kept=9)
    with pytest.raises(UsageError, match="no length"):
        read_run(tmp_path / "a", None)


def test_what_times_no_steps_is_refused(tmp_path: Path) -> None:
    training(tmp_path / "a", steps(0.1), verb="bench", strategies=None)
    with pytest.raises(UsageError, match="a run of bench, which times no steps"):
        read_run(tmp_path / "a", None)


def test_several_strategies_need_a_choice(tmp_path: Path) -> None:
    entry = figures()
    training(tmp_path / "a", steps(0.1), strategies={"overlapped": entry, "server": entry})
    with pytest.raises(UsageError, match="choose one of overlapped, server"):
        read_run(tmp_path / "a", None)
    with pytest.raises(UsageError, match="has no strategy 'sliced'"):
        read_run(tmp_path / "a", "sliced")
    assert read_run(tmp_path / "a", "overlapped").step_s.size == 40


@pytest.mark.parametrize("file", ["run.json", "trace.json.gz"])
def test_truncated_files_are_named(tmp_path: Path, file: str) -> None:
    training(tmp_path / "a", steps(0.1))
    path = tmp_path / "a" / file
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UsageError, match=file):
        read_side(str(tmp_path / "a"), None)


@pytest.mark.parametrize("file", ["run.json", "trace.json.gz"])
def test_missing_files_are_named(tmp_path: Path, file: str) -> None:
    training(tmp_path / "a", steps(0.1))
    (tmp_path / "a" / file).unlink()
    with pytest.raises(UsageError, match=file):
        read_side(str(tmp_path / "a"), None)


def test_a_proxy_has_all_its_steps_and_the_phases_that_its_trace_kept(tmp_path: Path) -> None:
    proxy(tmp_path / "a", steps(0.1), kept=10)
    proxy(tmp_path / "b", steps(0.2), kept=3)
    a, b = (read_run(tmp_path / side, None) for side in "ab")
    assert (a.step_s.size, a.phases.shape) == (40, (10, 8))
    assert diff([a], [a]).record()["a"][0]["steps_with_phases"] == 10
    assert len(diff([a], [a]).record()["phases"]) == 4
    answer = diff([a], [b])
    assert answer.different
    assert answer.record()["phases"] == {}


def test_simulated_steps_are_exact(tmp_path: Path) -> None:
    for side, median in (("a", 0.1), ("b", 0.1001)):
        phases = dict(
            zip([f"{phase}_s" for phase in PHASES], [0.05, 0.03, 0.02, median - 0.1], strict=True)
        )
        step = dict.fromkeys(("median", "p10", "p90"), median)
        entry = figures(source="simulated", step_time_s=step, **phases)
        training(tmp_path / side, [0.1], verb="simulate", strategies={"overlapped": entry})
    a, b = (read_side(str(tmp_path / side), None) for side in "ab")
    answer = diff(a, b)
    assert answer.different
    assert answer.record()["ci95"] == pytest.approx([1.001, 1.001])
    assert not diff(a, a).different
    assert answer.record()["phases"]["other"]["share"] == pytest.approx(1)
    assert answer.record()["exposed"] == {}, "these runs do not tell the parts"
