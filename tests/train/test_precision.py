import pytest

from steptime.train.precision import LossScale, precision_of


def test_the_scale_halves_on_overflow_and_doubles_after_patience():
    scale = LossScale(scale=1024.0, patience=3)
    for _ in range(2):
        scale = scale.after(overflowed=False)
    assert scale.scale == 1024
    assert scale.after(overflowed=False).scale == 2048
    halved = scale.after(overflowed=True)
    assert (halved.scale, halved.good_steps) == (512, 0)


def test_the_scale_never_falls_below_one():
    assert LossScale(scale=1.0).after(overflowed=True).scale == 1


@pytest.mark.parametrize(
    ("compute", "reduce", "scaled"),
    [("fp32", "fp32", False), ("bf16", "fp32", False), ("fp16", "fp32", True),
     ("bf16", "fp16", True)],
)  # fmt: skip
def test_only_fp16_is_scaled(compute, reduce, scaled):
    assert precision_of(compute, reduce).scaled is scaled
