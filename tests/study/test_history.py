"""The history of a folder of runs: what belongs together, and what is broken."""

from pathlib import Path
from typing import Any

import pytest

from runs_made import environment, figures, proxy, training
from steptime.errors import UsageError
from steptime.report.history_lines import short_revision, sparkline
from steptime.report.history_page import conclusion, history_figure
from steptime.study.history import history


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Five comparable trainings out of order, one of another precision, a proxy, and wreckage."""
    for number in (3, 1, 2, 0, 4):
        training(
            tmp_path / f"train-{number}",
            [0.1 + number / 100] * 9,
            environment=environment(
                time=f"2026-11-2{number}T18:00:00+00:00", git_revision=f"{number}" * 12
            ),
        )
    training(tmp_path / "bf16", [0.05] * 9, precision="bf16")
    proxy(tmp_path / "nested" / "proxy", [0.3] * 9, kept=2)
    training(tmp_path / "bench", [0.1], verb="bench", strategies=None)
    training(tmp_path / "cut", [0.1])
    record = tmp_path / "cut" / "run.json"
    record.write_bytes(record.read_bytes()[:99])
    training(tmp_path / "lost", [0.1])
    (tmp_path / "lost" / "run.json").unlink()
    training(tmp_path / "odd", [0.1], environment={})
    (tmp_path / "empty").mkdir()
    return tmp_path


def test_comparable_runs_stand_together_in_order_of_time(runs: Path) -> None:
    found = history(runs).record()
    lengths = [
        (one["verb"], one["precision"], [point["run"] for point in one["points"]])
        for one in found["series"]
    ]
    assert ("train", "fp32", [f"train-{number}" for number in range(5)]) in lengths
    assert ("train", "bf16", ["bf16"]) in lengths
    assert ("proxy", "fp32", ["nested/proxy"]) in lengths
    assert len(lengths) == 3
    values = next(one for one in found["series"] if len(one["points"]) == 5)["points"]
    assert [point["value"] for point in values] == pytest.approx([0.1, 0.11, 0.12, 0.13, 0.14])
    assert [point["git_revision"] for point in values] == [str(n) * 12 for n in range(5)]


def test_what_is_broken_is_listed_and_does_not_end_it(runs: Path) -> None:
    found = history(runs)
    assert dict(found.without) == {"bench": "bench"}
    assert sorted(name for name, _ in found.damaged) == ["cut", "lost", "odd"]
    why = dict(found.damaged)
    assert "cannot read" in why["cut"]
    assert "has no run.json" in why["lost"]


def test_what_is_exposed_is_known_in_its_parts(tmp_path: Path) -> None:
    parts = {"transfer_s": 0.01, "bubble_s": 0.0, "imbalance_s": 0.03, "dependency_s": 0.02}
    told = figures(step_time_s={"median": 0.2, "p10": 0.2, "p90": 0.2}, exposed_comm_s=0.06)
    training(tmp_path / "told", [0.2], strategies={"overlapped": told | parts})
    training(tmp_path / "older", [0.2])
    for part, seconds in parts.items():
        found = history(tmp_path, part)
        assert [p.value for one in found.series for p in one.points] == [seconds]
        assert dict(found.without) == {"older": "train"}


def test_a_figure_without_deciles(runs: Path) -> None:
    found = history(runs, "tokens_per_s").record()
    points = next(one["points"] for one in found["series"] if len(one["points"]) == 5)
    assert next(point["value"] for point in points) == pytest.approx(10000)
    assert {point["p10"] for point in points} == {None}
    assert {"run": "nested/proxy", "verb": "proxy"} in found["without"]


def test_a_machine_of_its_own_has_a_line_of_its_own(tmp_path: Path) -> None:
    for name in ("one", "two"):
        training(tmp_path / name, [0.1] * 9, environment=environment(cpu=name))
    assert len(history(tmp_path).series) == 2


def test_unknown_figures_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="choose one of step_time_s"):
        history(tmp_path, "speed")
    with pytest.raises(UsageError, match="is no folder"):
        history(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="holds no runs"):
        history(tmp_path)


def test_the_figure_has_a_line_a_series_and_revisions_below(runs: Path) -> None:
    run = history(runs).record()
    (at,) = [at for at, one in enumerate(run["series"]) if len(one["points"]) == 5]
    figure = history_figure(run, at)
    (line,) = figure["data"]
    assert line["x"] == [0, 1, 2, 3, 4]
    assert line["y"] == pytest.approx([100, 110, 120, 130, 140])
    assert figure["layout"]["yaxis"]["type"] == "log"
    assert "1" * 7 in figure["layout"]["xaxis"]["ticktext"]


def test_a_conclusion_names_the_run_from_which_on_a_figure_is_another_one() -> None:
    def point(value: float, revision: str) -> dict[str, Any]:
        about = {"run": revision, "time": "2026-11-20T18:00", "git_revision": revision * 12}
        return about | {"value": value, "p10": 0.99 * value, "p90": 1.01 * value}

    points = [point(0.1, "a"), point(0.101, "b"), point(0.107, "c"), point(0.1065, "d")]
    assert conclusion(points, "step_time_s").startswith("6 % slower from cccccccc, unchanged since")
    assert conclusion(points, "tokens_per_s").startswith("6 % faster from cccccccc")
    assert conclusion(points[:2], "step_time_s").startswith("Unchanged since aaaaaaaa")
    assert conclusion(points[:1], "step_time_s").startswith("One run")


def test_bars_are_as_high_as_their_values() -> None:
    assert sparkline([1, 2, 3], 80) == "▁▅█"
    assert sparkline([100, 100.5], 80) == "▄▄"
    assert len(sparkline(range(1, 100), 3)) == 3


def test_revisions_are_cut_to_what_tells_them_apart() -> None:
    assert short_revision("0123456789ab-dirty") == "01234567*"
    assert short_revision("v1.0-3-g0123456789ab") == "01234567"
    assert short_revision(None) == "–"


def test_proxies_that_called_otherwise_are_series_of_their_own(tmp_path: Path) -> None:
    spec = {"precision": "fp32", "micro_batches": 4, "bucket": 26214400, "strategy": "replicated"}
    for name, other in {
        "first": {},
        "again": {"strategy": "overlapped"},
        "bf16": {"precision": "bf16", "micro_batches": 16},
        "bucket": {"bucket": 1 << 20},
    }.items():
        proxy(tmp_path / name, [0.1] * 9, kept=2, spec=spec | other)
    found = history(tmp_path)
    together = [sorted(point.run for point in one.points) for one in found.series]
    assert sorted(together) == [["again", "first"], ["bf16"], ["bucket"]]
    (bucket,) = [one for one in found.series if one.points[0].run == "bucket"]
    assert bucket.precision == "fp32"
    assert bucket.apart == {"bucket": "1MiB"}


def test_what_a_run_does_not_say_is_what_no_other_did(tmp_path: Path) -> None:
    for name in ("one", "two"):
        proxy(tmp_path / name, [0.1] * 9, kept=2, spec=None)
    assert len(history(tmp_path).series) == 2
