"""What kernels take: waves, ceilings, ramps, and the floor under all of them."""

from dataclasses import replace

import numpy as np
import pytest

from steptime.cluster import Device, device_named
from steptime.errors import UsageError
from steptime.simulate.kernels import (
    attention_seconds,
    product_seconds,
    stream_seconds,
    unfused_attention_seconds,
)

H100 = device_named("h100-sxm")
A100 = device_named("a100-80")
PLAIN = Device(
    name="plain", flops={"bf16": 1e12}, memory=1e10, memory_bandwidth=1e11, efficiency=0.5
)


def tflops(device: Device, dtype: str, m: float, n: float, k: float) -> float:
    return float(2 * m * n * k / product_seconds(device, dtype, m, n, k) / 1e12)


def test_a_product_takes_a_whole_number_of_waves() -> None:
    """132 tiles of 256 x 128 at once: one more, and all wait for a second wave."""
    kernels = H100.kernels
    assert kernels is not None
    free = replace(H100, kernels=replace(kernels, sustained={"bf16": 1.0}))
    rows, columns = 256 * 12, 128 * 11
    fits, more, twice = product_seconds(free, "bf16", [rows, rows + 256, 2 * rows], columns, 16384)
    assert more / fits > 1.4
    assert twice / fits == pytest.approx(2, rel=0.02)


def test_neither_ceiling_is_broken() -> None:
    random = np.random.default_rng(0)
    m, n, k = random.integers(1, 20000, (3, 500))
    for device in (A100, H100, PLAIN):
        seconds = product_seconds(device, "bf16", m, n, k)
        assert (seconds >= 2.0 * m * n * k / device.flops["bf16"]).all()
        assert (seconds >= 2.0 * (m * k + k * n + m * n) / device.memory_bandwidth).all()


def test_more_of_any_side_never_takes_less() -> None:
    random = np.random.default_rng(1)
    m, n, k = 8 * random.integers(1, 1000, (3, 500))
    least = product_seconds(H100, "bf16", m, n, k)
    for more in ((m + 64, n, k), (m, n + 64, k), (m, n, k + 64)):
        assert (product_seconds(H100, "bf16", *more) >= least * (1 - 1e-9)).all()


def test_a_large_product_is_held_by_power_and_a_short_k_by_its_result() -> None:
    assert tflops(H100, "bf16", 8192, 8192, 8192) == pytest.approx(711, rel=0.01)
    deep, shallow = tflops(H100, "fp8", 4096, 7168, 16384), tflops(H100, "fp8", 4096, 32768, 512)
    assert shallow < 0.65 * deep


def test_few_tiles_share_k_among_units() -> None:
    """Without splits, 64 x 64 results of a long k would keep one unit of 132 busy."""
    alone = 2 * 64 * 64 * 65536 / (H100.flops["bf16"] / 132)
    assert product_seconds(H100, "bf16", 64, 64, 65536) < alone / 4


@pytest.mark.parametrize(("m", "n"), [(512, 64), (64, 512)])
def test_tiles_that_share_k_are_one_wave_if_there_are_units_for_them(m: int, n: int) -> None:
    """8 tiles of 64 x 64 in 16 parts of k are 128 of 132; here moving the result costs nothing."""
    free, kernels = replace(H100, memory_bandwidth=1e18), H100.kernels
    assert kernels is not None
    fed = (1 << 18) / 16 * kernels.units * (64 + 64) * 2 / kernels.feed
    found = product_seconds(free, "bf16", m, n, 1 << 18)
    assert found == pytest.approx(kernels.start_s + fed, rel=1e-3)


def test_a_side_that_16_bytes_do_not_divide_costs_a_third() -> None:
    odd, even = (tflops(H100, "bf16", 16384, n, 4096) for n in (10922, 10944))
    assert odd / even == pytest.approx(273 / 398, rel=0.08)


def test_what_a_product_takes_does_not_depend_on_its_neighbours() -> None:
    m = np.array([64, 100000, 37])
    together = product_seconds(H100, "bf16", m, 4096, 4096)
    alone = [float(product_seconds(H100, "bf16", one, 4096, 4096)) for one in m]
    assert together.tolist() == alone
    assert product_seconds(H100, "bf16", m[:, None], [[64, 128]], 512).shape == (3, 2)
    assert product_seconds(H100, "bf16", np.full(40000, 64), 64, 64).shape == (40000,)


def test_a_device_without_parameters_keeps_the_roofline() -> None:
    assert product_seconds(PLAIN, "bf16", 1000, 1000, 1000) == pytest.approx(2e9 / 0.5e12)
    assert product_seconds(PLAIN, "bf16", 1, 10000, 10000) == pytest.approx(2e8 / 1e11, rel=1e-3)
    assert stream_seconds(PLAIN, 0.85e11) == pytest.approx(1.0)


def test_a_dtype_without_a_rate_is_refused() -> None:
    sizes = {"rows": 1, "heads": 1, "queries": 64, "keys": 64, "width": 64}
    for device in (A100, PLAIN):
        with pytest.raises(UsageError, match=f"{device.name} has no rate for fp8"):
            product_seconds(device, "fp8", 64, 64, 64)
        with pytest.raises(UsageError, match="no rate for fp8"):
            attention_seconds(device, "fp8", **sizes)
    with pytest.raises(UsageError, match=r"no attention kernel 'flash3'.*flash2"):
        attention_seconds(A100, "bf16", kernel="flash3", **sizes)


def attended(**sizes: float | bool | str) -> float:
    usual = {"rows": 1, "heads": 16, "queries": 4096, "keys": 4096, "width": 128}
    return float(attention_seconds(H100, "bf16", **(usual | sizes)))


def test_attention_follows_its_pairs_its_width_and_its_pass() -> None:
    assert attended() / attended(causal=False) == pytest.approx(0.5, abs=0.05)
    assert 2 < attended(backward=True) / attended() < 3.2
    assert attended(rows=8) / attended(rows=4) == pytest.approx(2, rel=0.02)
    assert attended(width=64) > 0.5 * attended()  # the softmax stays
    assert attended(width=80) == attended(width=96)  # padded to 32 columns
    assert attended(kernel="flash3") < 0.7 * attended(kernel="flash2")


def test_few_heads_leave_units_without_work() -> None:
    """One head of 512 tokens is 4 blocks for 132 units: as long as 32 of them."""
    assert attended(heads=1, queries=512, keys=512) == pytest.approx(
        attended(heads=16, queries=512, keys=512)
    )


def test_a_window_saves_what_lies_before_it() -> None:
    whole = attended(queries=16384, keys=16384)
    assert attended(queries=16384, keys=1024) == pytest.approx(whole / 8, rel=0.35)


def test_scores_in_memory_cost_more_than_in_the_kernel() -> None:
    sizes = {"rows": 4, "heads": 16, "queries": 2048, "keys": 2048, "width": 64}
    fused = attention_seconds(A100, "bf16", **sizes)
    usual, eager = (
        unfused_attention_seconds(A100, "bf16", score_bytes=one, **sizes) for one in (4.0, 20.0)
    )
    assert fused < usual < eager
    backward = unfused_attention_seconds(A100, "bf16", score_bytes=4.0, backward=True, **sizes)
    assert backward == pytest.approx(2 * usual)


def test_small_kernels_do_not_reach_the_bandwidth() -> None:
    kernels = H100.kernels
    assert kernels is not None
    small, large = stream_seconds(H100, [1e5, 1e10])
    assert 1e10 / large == pytest.approx(kernels.reach * H100.memory_bandwidth, rel=1e-3)
    assert small == pytest.approx(kernels.start_s, rel=0.02)
    assert stream_seconds(H100, 0) == 0


def test_a_lone_head_with_a_window_takes_as_long_as_its_longest_block_of_queries() -> None:
    """No block meets more keys than the window has, and there is a unit for each."""
    sizes = {"rows": 1, "heads": 1, "keys": 1024, "width": 128}
    wide, one = (attention_seconds(H100, "bf16", queries=q, **sizes) for q in (8192, 1024))
    assert wide == one
