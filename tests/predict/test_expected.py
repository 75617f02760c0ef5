"""The expected error of a prediction, from the errors of the nearest measured steps."""

import numpy as np
import pytest

from plan_rows import shipped
from steptime.predict.expected import errors_of, nearest, shipped_steps

STEP = {
    "device": "A",
    "precision": "bf16",
    "software": "megatron",
    "tensor": 2,
    "pipeline": 1,
    "context": 1,
    "expert": 1,
    "zero": 0,
    "gpus": 8,
    "parameters": 1e9,
}


def steps(*errors: float, source: str = "one", **change: object) -> list[dict[str, object]]:
    return [STEP | {"error": error, "source": source} | change for error in errors]


def test_it_is_of_the_nearest_steps_by_hand():
    found = nearest(errors_of(steps(0.1, -0.1, 0.2, -0.2, 0.4)), STEP)
    assert found is not None
    assert (found.rows, found.sources) == (5, ("one",))
    assert found.mape == pytest.approx(0.2)
    assert found.most == pytest.approx(np.quantile([0.1, 0.1, 0.2, 0.2, 0.4], 0.8))


def test_too_few_near_steps_say_nothing():
    assert nearest(errors_of(steps(0.1, 0.1, 0.1, 0.1)), STEP) is None


@pytest.mark.parametrize(
    "change",
    [{"device": "B"}, {"precision": "fp16"}, {"gpus": 8 << 11}, {"parameters": 64e9}],
)
def test_steps_that_are_not_alike_do_not_count(change):
    errors = errors_of([*steps(0.1, 0.1, 0.1, 0.1, 0.1), *steps(*[0.9] * 9, **change)])
    found = nearest(errors, STEP)
    assert found is not None
    assert (found.rows, found.mape) == (5, pytest.approx(0.1))


def test_nearer_steps_go_before_farther_ones():
    errors = errors_of([*steps(*[0.9] * 20, gpus=32), *steps(*[0.1] * 20)])
    found = nearest(errors, STEP)
    assert found is not None
    assert found.mape == pytest.approx(0.1)


def test_steps_of_the_same_framework_go_before_those_of_others():
    others = steps(*[0.01] * 20, software="nemo")
    found = nearest(errors_of([*others, *steps(*[0.1] * 20, gpus=32)]), STEP)
    assert found is not None
    assert found.mape == pytest.approx(0.1)
    alone = nearest(errors_of(others), STEP)
    assert alone is not None
    assert alone.mape == pytest.approx(0.01)


def test_a_step_does_not_vouch_for_itself():
    errors = errors_of(steps(0.1, 0.1, 0.1, 0.1, 0.1, 5.0))
    found = nearest(errors, STEP, but=5)
    assert found is not None
    assert found.most == pytest.approx(0.1)


@pytest.mark.slow
def test_steps_that_ship_are_those_of_the_measured_rows():
    from steptime.plan.validate import step_with_error

    timed = [one for one in shipped().judged if one.row.step_s]
    kept = shipped_steps()
    assert len(kept) == len(timed)
    for one, judged in zip(kept, timed, strict=True):
        now = {name: str(value) for name, value in step_with_error(judged).items()}
        told = f"run benchmarks/accuracy.py: line {judged.row.line} of {judged.row.source}"
        assert float(one.pop("error")) == pytest.approx(float(now.pop("error")), abs=2e-3), told
        assert one == now, told


def test_four_in_five_shipped_steps_are_off_by_no_more_than_was_to_be_expected():
    timed = [one for one in shipped().judged if one.row.step_s]
    known = [(abs(one.error or 0), one.expected.most) for one in timed if one.expected]
    assert len(known) > 0.9 * len(timed)
    assert np.mean([off <= most for off, most in known]) > 0.7
