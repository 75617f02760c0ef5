"""What several packages do with arrays."""

import numpy as np
import pytest

from steptime.arrays import distinct


@pytest.mark.parametrize("size", [0, 1, 2, 1000])
@pytest.mark.parametrize("kinds", [1, 3, 10**12])
def test_as_many_values_differ_as_a_set_has(size: int, kinds: int) -> None:
    values = np.random.default_rng(size).integers(-kinds, kinds, size=(size, 2))
    assert distinct(values) == len(set(values.ravel().tolist()))
