import numpy as np
import pytest

from steptime.measure.fit import fit

SIZES = [4, 1 << 10, 1 << 16, 1 << 20, 1 << 26]


def test_a_line_is_found_again():
    found = fit(SIZES, [50e-6 + size / 2e9 for size in SIZES])
    assert found.alpha_s == pytest.approx(50e-6)
    assert found.bandwidth == pytest.approx(2e9)
    assert found.residual < 1e-9


def test_small_times_count_as_much_as_large_ones():
    noise = 1 + 0.05 * np.array([1, -1, 1, -1, 1])
    found = fit(SIZES, (np.array([50e-6 + size / 2e9 for size in SIZES]) * noise).tolist())
    assert found.alpha_s == pytest.approx(50e-6, rel=0.1)
    assert found.bandwidth == pytest.approx(2e9, rel=0.1)
    assert found.residual == pytest.approx(0.05, rel=0.3)


def test_no_part_is_negative():
    falling = fit([1, 1000], [2e-6, 1e-6])
    assert falling.beta_s == 0
    assert falling.bandwidth == float("inf")
    steep = fit([1000, 2000], [1e-6, 4e-6])
    assert steep.alpha_s == 0
    assert steep.beta_s > 0


def test_one_size_fits_nothing():
    assert fit([4, 4], [1e-6, 2e-6]) is None
