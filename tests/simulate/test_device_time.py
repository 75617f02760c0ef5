"""What an op takes on a device: by its kernels where both have them, else by the roofline."""

from dataclasses import replace

import pytest

from steptime.cluster import cluster_named, device_named
from steptime.errors import UsageError
from steptime.program import Compute, Kernel, Wait
from steptime.simulate.device import kernel_seconds, seconds_on
from steptime.simulate.kernels import stream_seconds
from steptime.simulate.step import simulate
from steptime.workloads.spec import StepSpec
from steptime.workloads.step import step_of

H100 = device_named("h100-sxm")
BARE = replace(H100, kernels=None)
PRODUCT = Kernel("product", (8192.0, 8192.0, 8192.0, 1.0))
ATTENTION = Kernel("attention", (4.0, 16.0, 4096.0, 4096.0, 128.0, 1.0, 0.0), 2.0)
OP = Compute(name="forward", flops=1e12, nbytes=1e6, dtype="bf16", kernels=(PRODUCT, ATTENTION))


def test_an_op_takes_what_its_kernels_take_one_after_the_other() -> None:
    each = [kernel_seconds(H100, "bf16", one) for one in (PRODUCT, ATTENTION)]
    assert seconds_on(H100, OP) == pytest.approx(each[0] + 2 * each[1])
    assert seconds_on(BARE, OP) == pytest.approx(1e12 / (989e12 * 0.8))
    assert seconds_on(H100, replace(OP, kernels=())) == seconds_on(BARE, OP)


def test_times_that_are_given_stay() -> None:
    assert seconds_on(H100, replace(OP, seconds=3.0)) == 3.0
    assert seconds_on(H100, Wait(name="wait")) == 0.0


def test_what_only_moves_bytes_is_one_kernel() -> None:
    op = Compute(name="update", nbytes=1e9)
    assert seconds_on(H100, op) == float(stream_seconds(H100, 1e9))
    assert seconds_on(BARE, op) == pytest.approx(1e9 / 3.35e12)
    assert seconds_on(H100, Compute(name="nothing")) == 0.0


def test_small_kernels_wait_for_the_host() -> None:
    kernels = H100.kernels
    assert kernels is not None
    op = replace(OP, kernels=(Kernel("stream", (1024.0,), 100.0),))
    assert seconds_on(H100, op) == pytest.approx(100 * kernels.launch_s)


def test_a_dtype_without_a_rate_is_refused() -> None:
    with pytest.raises(UsageError, match="'forward' computes in fp8, for which A100"):
        seconds_on(device_named("a100-80"), replace(OP, dtype="fp8"))


@pytest.mark.parametrize(("cluster", "measured"), [("dgx-a100", 218e3), ("dgx-h100", 475e3)])
def test_gpt2_takes_what_llm_c_and_modded_nanogpt_measured(cluster: str, measured: float) -> None:
    """64 rows of 1,024 tokens a GPU, in bf16; no parameter was fitted to these two figures."""
    spec = StepSpec(model="gpt2-124M", ranks=8, batch=512, precision="bf16", strategy="overlapped")
    there = cluster_named(cluster)
    run = simulate(step_of(spec, there).program, there, steps=2)
    assert 64 * 1024 / run.step_s[-1] == pytest.approx(measured, rel=0.05)
