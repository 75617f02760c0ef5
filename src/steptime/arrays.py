"""Arrays of NumPy by what they hold, for type hints, and what several packages do with them."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int32]
Longs: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]


def distinct(values: Longs) -> int:
    """How many different values an array has.

    ``np.unique`` hashes whole numbers since NumPy 2.3: where most differ, sorting takes a fortieth.
    """
    ordered = np.sort(values, axis=None)
    return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + bool(ordered.size)
