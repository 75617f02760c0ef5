"""Predictions beside measured rows: what is summed up, and what JSON says."""

import json
import math

import pytest

from plan_rows import shipped, write_rows
from steptime.errors import UsageError
from steptime.plan.predictions import predicted
from steptime.plan.validate import Judged, validate
from steptime.report.accuracy_lines import accuracy_lines


@pytest.fixture
def found(tmp_path):
    """Two layouts of a model, one that crashed, one that cannot be expressed."""
    crashed = {"step_s": "", "note": "crashed or out of memory", "micro_batch": "64"}
    path = write_rows(
        tmp_path / "rows.csv",
        {"mem_gib": "20"},
        {"tp": "1", "dp": "8", "step_s": "7"},
        crashed,
        {"gpu": "TPU"},
    )
    return validate(path)


def test_every_row_is_there_in_order(found):
    run = found.json()
    assert [row["row"] for row in run["rows"]] == [0, 1, 2, 3]
    assert [row["expressible"] for row in run["rows"]] == [True, True, True, False]
    assert run["rows"][3]["why"] == "no device of ours is TPU"
    assert run["rows"][3]["step_time_s"] is None
    assert json.loads(json.dumps(run, allow_nan=False))["verb"] == "plan"


def test_a_summary_is_of_the_predictions_beside_it(found):
    one = found.summary["somebody's table H100-SXM5-80GB"]
    first, second, third = (row for row in found.rows if isinstance(row, Judged))
    errors = [first.predicted.step_s / 8.0 - 1, second.predicted.step_s / 7.0 - 1]
    assert (one.rows, one.judged, one.unexpressed) == (2, 2, 0)
    assert one.mape == pytest.approx(sum(map(abs, errors)) / 2)
    assert one.bias == pytest.approx(sum(errors) / 2)
    assert one.memory_mape == pytest.approx(
        abs(first.predicted.memory_bytes / (20 * 2**30) - 1), rel=1e-9
    )
    right = [first.predicted.fits, second.predicted.fits, not third.predicted.fits]
    assert one.oom_balanced_accuracy == ((right[0] + right[1]) / 2 + right[2]) / 2
    faster = 1 if second.predicted.step_s < first.predicted.step_s else 0
    assert one.regret_max == (0 if faster else pytest.approx(1 - 7 / 8))
    assert found.summary["somebody's table TPU"].unexpressed == 1


def test_steps_printed_below_a_tenth_of_the_peak_do_not_count(tmp_path):
    path = write_rows(tmp_path / "rows.csv", {"mfu_pct": "31"}, {"mfu_pct": "3", "step_s": "80"})
    (one,) = validate(path).summary.values()
    assert (one.rows, one.judged) == (2, 1)
    assert one.mape_all is not None and one.mape is not None
    assert one.mape_all > one.mape


def test_the_line_beside_is_fitted_to_the_rows(tmp_path):
    """Of one model and batch at two times the best line is off by 1/2 of the longer one's."""
    path = write_rows(tmp_path / "rows.csv", {"step_s": "8"}, {"step_s": "16"})
    (one,) = validate(path).summary.values()
    assert one.baseline_mape == pytest.approx(0.25)


def test_a_change_of_the_machine_reaches_the_prediction(found):
    from dataclasses import replace

    def slower(machine):
        return replace(machine, software=replace(machine.software, step_s=1.0))

    cases = [one.case for one in found.judged]
    plain, later = predicted(cases), predicted(cases, slower)
    for before, after in zip(plain, later, strict=True):
        assert after.terms["host"] == pytest.approx(before.terms["host"] + 1.0, abs=0.05)


def test_cases_are_predicted_alike_alone_and_together(found):
    cases = [one.case for one in found.judged]
    together = [one.step_s for one in predicted(cases)]
    assert together == pytest.approx([predicted([case])[0].step_s for case in cases])


def test_shipped_rows_are_predicted_and_finite():
    found = shipped()
    assert len(found.rows) == 3069
    timed = [one for one in found.judged if one.row.step_s]
    assert len(timed) > 2400
    assert all(math.isfinite(one.predicted.step_s) for one in timed)
    assert all(0 < one.predicted.mfu < 1 for one in timed)


def test_a_layout_that_cannot_run_says_why(tmp_path):
    path = write_rows(tmp_path / "rows.csv", {"tp": "1", "pp": "8", "dp": "1", "layers": "4"})
    (row,) = validate(path).json()["rows"]
    assert (row["expressible"], row["fits"]) == (True, False)
    assert "stage" in row["why"]


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        validate(tmp_path / "none.csv")


def test_lines_fit_a_terminal_and_name_reasons(found):
    lines = accuracy_lines(found.json())
    assert max(map(len, lines)) <= 80
    assert "3 of 4 rows predicted, 2 of them with a measured time" in lines[0]
    assert lines[-2:] == ["not predicted: 1 row", "    1  no device of ours is TPU"]


def test_few_rows_are_told_one_by_one(found):
    run = found.json()
    first = run["rows"][0]
    assert first["measured_s"] == 8.0
    assert first["layout"]["tensor"] == found.rows[0].row.tp
    lines = accuracy_lines(run)
    told = [line for line in lines if line.startswith(f"{first['model']}, {first['gpus']}")]
    assert len(told) == 3
    assert "8.00 s" in told[0]
    assert told[0].endswith(f"{100 * (first['step_time_s'] / 8 - 1):+.1f}")


@pytest.mark.slow
def test_many_rows_are_not_told_one_by_one():
    assert not any(line.startswith("model, GPUs") for line in accuracy_lines(shipped().json()))


@pytest.mark.slow
def test_lines_of_the_shipped_rows_fit_too():
    assert max(map(len, accuracy_lines(shipped().json()))) <= 80
