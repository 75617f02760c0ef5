"""What each precision keeps in which dtype, and the scaling of fp16, held against torch.amp's."""

import pytest
import torch

from steptime.errors import UsageError
from steptime.train.options import DataOptions, JobOptions, ModelOptions, TrainOptions
from steptime.train.precision import LossScale, precision_of


def test_the_scale_halves_on_overflow_and_doubles_after_patience():
    scale = LossScale(scale=1024.0, patience=3)
    for _ in range(2):
        scale = scale.after(overflowed=False)
    assert scale.scale == 1024
    assert scale.after(overflowed=False).scale == 2048
    halved = scale.after(overflowed=True)
    assert (halved.scale, halved.good_steps) == (512, 0)


def test_the_scale_goes_as_that_of_torch_amp():
    weight = torch.nn.Parameter(torch.zeros(()))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    theirs = torch.amp.GradScaler("cpu", growth_interval=3)
    ours = LossScale(patience=3)
    overflows = [step % 11 in (2, 3, 8) for step in range(60)] + [True] * 20 + [False] * 10
    for overflowed in overflows:
        theirs.scale(weight * 0.0)
        weight.grad = torch.tensor(float("inf") if overflowed else 1.0)
        theirs.step(optimizer)
        theirs.update()
        ours = ours.after(overflowed)
        assert ours.scale == theirs.get_scale()
    assert LossScale().patience == torch.amp.GradScaler("cpu").get_growth_interval()


@pytest.mark.parametrize(
    ("compute", "reduce", "scaled"),
    [("fp32", "fp32", False), ("bf16", "fp32", False), ("fp16", "fp32", True),
     ("bf16", "fp16", True), ("bf16-params", "fp32", False), ("fp8-emulated", "fp32", False)],
)  # fmt: skip
def test_only_fp16_is_scaled(compute, reduce, scaled):
    assert precision_of(compute, reduce).scaled is scaled


def test_only_bf16_params_keeps_state_in_less_than_fp32():
    names = ("fp32", "bf16", "fp16", "bf16-params", "fp8-emulated")
    kept = {name: precision_of(name, "fp32").state for name in names}
    assert kept == dict.fromkeys(names, torch.float32) | {"bf16-params": torch.bfloat16}
    assert precision_of("fp8-emulated", "fp32").compute == torch.bfloat16


def test_rounding_by_chance_is_refused_where_weights_are_in_fp32():
    with pytest.raises(UsageError, match="choose --precision bf16-params, or leave it out"):
        JobOptions(
            model=ModelOptions(),
            data=DataOptions(),
            train=TrainOptions(rounding="stochastic"),
            precision="bf16",
            compiled=False,
            steps=2,
            warmup=1,
            seed=0,
        )
